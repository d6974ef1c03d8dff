import { expect, test } from '@jest/globals';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';

const ROUNDS = 40;
const LIMIT_MS = 5_000;
const lives = join(import.meta.dirname, 'fake-agent-runs.mjs');
/**
 * The agent uses fixed paths and ports. The test runs the agent in its own namespaces, so that these do not
 * collide with anything.
 */
const setUp = [
  'mount -t tmpfs tmpfs /var/lib',
  'mount -t tmpfs tmpfs /run',
  'mkdir -p /run/cluster',
  'ip link set lo up',
  'exec "$@"',
].join(' && ');

test('an agent that is stopped at any time ends within seconds, opens nothing afterwards and leaves no unhandled rejection', async () => {
  const run = await new ExecaRunner({ path: process.env['PATH'] ?? '' }).run({
    argv: [
      'unshare',
      ...['--mount', '--net', 'sh', '-c', setUp, 'sh'],
      ...[process.execPath, '--no-warnings', lives, String(ROUNDS), String(LIMIT_MS)],
    ],
    timeoutMs: 300_000,
    signal: new AbortController().signal,
  });
  const told = JSON.parse(run.stdout) as Record<string, unknown>;
  expect(told).toMatchObject({ lives: 1 + 2 * ROUNDS, failures: [], unhandled: [], left: [] });
  // The test is useful only if some agents were stopped before they were ready.
  expect(told['beforeReady']).toBeGreaterThan(0);
  expect(told['moments']).toBeGreaterThan(ROUNDS);
}, 300_000);
