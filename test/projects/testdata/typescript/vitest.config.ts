import { defineConfig } from "vitest/config";

// Machines that do much else take their time.
export default defineConfig({ test: { testTimeout: 120_000 } });
