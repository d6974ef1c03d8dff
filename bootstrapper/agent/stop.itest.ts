import { expect, test } from '@jest/globals';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';

const ROUNDS = 40;
const LIMIT_MS = 5_000;
const lives = join(import.meta.dirname, 'fake-agent-runs.mjs');
/** State, sockets and ports of an agent have fixed places: in namespaces of its own they are nobody's. */
const setUp = [
  'mount -t tmpfs tmpfs /var/lib',
  'mount -t tmpfs tmpfs /run',
  'mkdir -p /run/cluster',
  'ip link set lo up',
  'exec "$@"',
].join(' && ');

test('an agent that is stopped in any moment of its life ends within seconds, opens nothing any more and leaves no rejection', async () => {
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
  // Some were stopped before they were up, and a life has enough moments to tell them apart.
  expect(told['beforeReady']).toBeGreaterThan(0);
  expect(told['moments']).toBeGreaterThan(ROUNDS);
}, 300_000);
