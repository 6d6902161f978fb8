// The MCP adapters of LangChain.js with an agent of LangGraph's.
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { runs, server } from './client.mjs';

const client = new MultiServerMCPClient({ mcpServers: { paddock: server } });
const llm = new ChatOpenAI({ model: 'scripted', useResponsesApi: true });
const agent = createReactAgent({ llm, tools: await client.getTools() });
await runs((prompt, signal) => agent.invoke({ messages: [{ role: 'user', content: prompt }] }, { signal, recursionLimit: 1000 }));
await client.close();
