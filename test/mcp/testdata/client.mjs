// What the clients of all SDKs have in common: the server as an installation names
// it, and a run of the agent's loop for each argument, which SIGUSR2 aborts.
export const server = JSON.parse(process.env.SERVER);

export async function runs(run) {
  for (const prompt of process.argv.slice(2)) {
    const abort = new AbortController();
    process.once('SIGUSR2', () => abort.abort());
    try {
      await run(prompt, abort.signal);
    } catch (error) {
      if (!abort.signal.aborted) throw error;
    }
  }
}
