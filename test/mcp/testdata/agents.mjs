// The OpenAI Agents SDK.
import { Agent, MCPServerStdio, MCPServerStreamableHttp, run, setTracingDisabled } from '@openai/agents';
import { runs, server } from './client.mjs';

setTracingDisabled(true);
const paddock = server.url
  ? new MCPServerStreamableHttp({ name: 'paddock', url: server.url, requestInit: { headers: server.headers } })
  : new MCPServerStdio({ name: 'paddock', ...server });
await paddock.connect();
const agent = new Agent({ name: 'agent', model: 'scripted', mcpServers: [paddock] });
await runs((prompt, signal) => run(agent, prompt, { signal, maxTurns: 1000 }));
await paddock.close();
