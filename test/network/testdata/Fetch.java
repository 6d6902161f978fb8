import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Prints what the given addresses answer, or the error. */
class Fetch {
    public static void main(String[] urls) throws InterruptedException {
        HttpClient client = HttpClient.newHttpClient();
        for (String url : urls) {
            try {
                HttpResponse<String> answer = client.send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString());
                System.out.println(answer.version() + " " + answer.statusCode() + " " + answer.body().trim());
            } catch (java.io.IOException e) {
                System.out.println(url + " failed: " + e);
            }
        }
        System.exit(0);
    }
}
