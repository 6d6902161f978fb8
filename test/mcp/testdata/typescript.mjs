// The MCP TypeScript SDK, over standard input and output or HTTP, in a loop of our
// own that speaks the Responses protocol.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { runs, server } from './client.mjs';

const client = new Client({ name: 'typescript', version: '1' });
await client.connect(server.url
  ? new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } })
  : new StdioClientTransport(server));
const tools = (await client.listTools()).tools.map(({ name, description, inputSchema }) => ({ type: 'function', name, description, parameters: inputSchema }));
await runs(async (prompt, signal) => {
  const input = [{ role: 'user', content: prompt }];
  for (;;) {
    const response = await fetch(`${process.env.OPENAI_BASE_URL}/responses`, { method: 'POST', body: JSON.stringify({ model: 'scripted', input, tools }) });
    const calls = (await response.json()).output.filter((item) => item.type === 'function_call');
    if (calls.length === 0) return;
    for (const call of calls) {
      const { content } = await client.callTool({ name: call.name, arguments: JSON.parse(call.arguments) }, undefined, { signal });
      input.push(call, { type: 'function_call_output', call_id: call.call_id, output: content.map((part) => part.text).join('') });
    }
  }
});
await client.close();
