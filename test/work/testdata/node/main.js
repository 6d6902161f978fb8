// Worker threads, children of every kind, files, and a web server.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { spawn, execFileSync, fork } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const zlib = require('node:zlib');
const { once } = require('node:events');
const { square } = require('local');

async function threads() {
  const results = [1, 2, 3, 4].map(async (n) => {
    const worker = new Worker(__filename, { workerData: n });
    const [answer] = await once(worker, 'message');
    return answer;
  });
  console.log('threads', (await Promise.all(results)).join(' '));
}

async function children() {
  console.log('execFileSync', execFileSync('sh', ['-c', 'cat'], { input: 'in' }).toString());
  const child = spawn('sh', ['-c', 'echo out; kill -TERM $$']);
  let out = '';
  child.stdout.on('data', (data) => { out += data; });
  const [code, signal] = await once(child, 'close');
  console.log('spawn', out.trim(), code, signal);
  const other = fork(__filename, ['child']);
  other.send('hello');
  const [answer] = await once(other, 'message');
  console.log('fork', answer);
  await once(other, 'exit');
}

async function files() {
  const dir = await fs.promises.mkdtemp(path.join(os.tmpdir(), 'job-'));
  await Promise.all([...Array(100).keys()].map((n) => fs.promises.writeFile(path.join(dir, `${n}`), `${n}`)));
  const texts = await Promise.all((await fs.promises.readdir(dir)).map((name) => fs.promises.readFile(path.join(dir, name), 'utf8')));
  console.log('files', texts.reduce((sum, text) => sum + Number(text), 0));
  const changed = new AbortController();
  const watcher = fs.promises.watch(dir, { signal: changed.signal });
  setImmediate(() => fs.writeFileSync(path.join(dir, 'new'), ''));
  for await (const event of watcher) {
    console.log('watched', event.filename);
    break;
  }
  await fs.promises.rm(dir, { recursive: true });
  console.log('gzip', zlib.gunzipSync(zlib.gzipSync('text')).toString(), crypto.createHash('sha256').update('x').digest('hex').slice(0, 8));
}

async function web() {
  const server = http.createServer((request, response) => {
    request.pipe(crypto.createHash('sha256').setEncoding('hex')).pipe(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${server.address().port}/`;
  const answers = await Promise.all([...Array(20).keys()].map(async () => (await fetch(url, { method: 'POST', body: 'x'.repeat(1 << 16) })).text()));
  console.log('web', new Set(answers).size, answers[0]);
  server.close();
  server.closeAllConnections();
}

async function main() {
  await threads();
  await children();
  await files();
  await web();
  console.log('cpus', os.cpus().length > 0, os.availableParallelism() > 0);
  process.exitCode = 9;
}

if (!isMainThread) {
  parentPort.postMessage(square(workerData));
} else if (process.argv[2] === 'child') {
  process.once('message', (text) => {
    process.send(text.toUpperCase());
    process.disconnect();
  });
} else {
  main();
}
