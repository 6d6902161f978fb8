// The OpenAI Agents SDK.
import { Agent, MCPServerStdio, run, setTracingDisabled } from '@openai/agents';
import { runs, server } from './client.mjs';

setTracingDisabled(true);
const paddock = new MCPServerStdio({ name: 'paddock', ...server });
await paddock.connect();
const agent = new Agent({ name: 'agent', model: 'scripted', mcpServers: [paddock] });
await runs((prompt, signal) => run(agent, prompt, { signal, maxTurns: 1000 }));
await paddock.close();
