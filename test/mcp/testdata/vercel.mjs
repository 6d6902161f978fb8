// The Vercel AI SDK.
import { openai } from '@ai-sdk/openai';
import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio';
import { generateText, isStepCount } from 'ai';
import { runs, server } from './client.mjs';

const transport = server.url ? { type: 'http', ...server } : new Experimental_StdioMCPTransport(server);
const client = await createMCPClient({ transport });
const tools = await client.tools();
await runs((prompt, signal) => generateText({ model: openai.responses('scripted'), tools, prompt, abortSignal: signal, stopWhen: isStepCount(1000) }));
await client.close();
