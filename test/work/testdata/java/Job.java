import java.net.URI;
import java.net.InetSocketAddress;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.stream.LongStream;

import com.sun.net.httpserver.HttpServer;

/** Threads, files, a mapped file, a child process and a web server. */
public class Job {
    public static void main(String[] args) throws Exception {
        threads();
        files();
        child();
        web();
        System.exit(11);
    }

    static void threads() throws Exception {
        var pool = Executors.newFixedThreadPool(16);
        List<Callable<Long>> work = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            long n = i;
            work.add(() -> n * n);
        }
        long sum = 0;
        for (var f : pool.invokeAll(work)) {
            sum += f.get();
        }
        pool.shutdown();
        System.out.println("threads " + sum + " " + LongStream.range(0, 1_000_000).parallel().sum());
    }

    static void files() throws Exception {
        Path dir = Files.createTempDirectory("job");
        for (int i = 0; i < 50; i++) {
            Files.writeString(dir.resolve("f" + i), "x".repeat(i));
        }
        long size = 0;
        try (var all = Files.list(dir)) {
            for (Path p : all.toList()) {
                size += Files.size(p);
            }
        }
        try (var c = FileChannel.open(dir.resolve("mapped"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            c.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 20).put(ByteBuffer.wrap("mapped".getBytes()));
            c.lock().release();
        }
        System.out.println("files " + size + " " + Files.readString(dir.resolve("mapped")).substring(0, 6));
    }

    static void child() throws Exception {
        var p = new ProcessBuilder("sh", "-c", "cat; exit 8").redirectErrorStream(true).start();
        try (var in = p.getOutputStream()) {
            in.write("to the child".getBytes());
        }
        String said = new String(p.getInputStream().readAllBytes());
        System.out.println("child " + said + " " + p.waitFor());
    }

    static void web() throws Exception {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestURI().getPath().getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        var uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/path");
        var answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
        System.out.println("web " + answer.statusCode() + " " + answer.body());
        server.stop(0);
    }
}
