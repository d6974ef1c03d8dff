import { expect, test } from '@jest/globals';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';

const ROUNDS = 40;
const LIMIT_MS = 5_000;
const fakeAgentRuns = join(import.meta.dirname, 'fake-agent-runs.mjs');
/** The agent uses fixed paths and ports, so the test runs it in namespaces of its own. */
const setUp = [
  'mount -t tmpfs tmpfs /var/lib',
  'mount -t tmpfs tmpfs /run',
  'mkdir -p /run/cluster',
  'ip link set lo up',
  'exec "$@"',
].join(' && ');

test('an agent that is stopped at any moment ends within seconds, opens nothing afterwards and leaves no unhandled rejection', async () => {
  const run = await new ExecaRunner({ path: process.env['PATH'] ?? '' }).run({
    argv: [
      'unshare',
      ...['--mount', '--net', 'sh', '-c', setUp, 'sh'],
      ...[process.execPath, '--no-warnings', fakeAgentRuns, String(ROUNDS), String(LIMIT_MS)],
    ],
    timeoutMs: 300_000,
    signal: new AbortController().signal,
  });
  const told = JSON.parse(run.stdout) as Record<string, unknown>;
  expect(told).toMatchObject({ runs: 1 + 2 * ROUNDS, failures: [], unhandled: [], left: [] });
  // The test proves something only if some runs were stopped before they were ready, and at many different
  // moments.
  expect(told['beforeReady']).toBeGreaterThan(0);
  expect(told['moments']).toBeGreaterThan(ROUNDS);
}, 300_000);
