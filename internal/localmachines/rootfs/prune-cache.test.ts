import { expect, test } from '@jest/globals';
import { FakeClock } from '../../testing/index.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { pruneCache } from './prune-cache.ts';

const HOUR_MS = 60 * 60 * 1000;

test('pruneCache() removes unused directories, but keeps young, used and requested ones', async () => {
  const clock = new FakeClock();
  const old = clock.nowMs() - 2 * HOUR_MS;
  const directories: Readonly<Record<string, readonly string[]>> = {
    '/cache/layers': ['old', 'used', 'wanted', 'young', 'torn.partial'],
    '/var/lib/cluster-mini': ['clu3'],
    '/data/mini/a/nodes': ['n1', 'half-made'],
  };
  const record = {
    version: 1,
    name: 'n1',
    address: '198.18.3.11',
    layers: ['/cache/layers/used', '/cache/rootfs/r'],
    binds: [],
    procFiles: {},
  };
  const texts: Readonly<Record<string, string>> = {
    '/var/lib/cluster-mini/clu3': '/data/mini/a',
    '/data/mini/a/nodes/n1/node.json': JSON.stringify(record),
  };
  const removed: string[] = [];
  const refuse = (): never => {
    throw new Error('not asked for');
  };
  const host: HostPorts = {
    clock,
    commands: { run: refuse },
    processes: { startDetached: refuse, runAttached: refuse, sendSignal: refuse },
    files: {
      list: async (path) => directories[path] ?? [],
      read: async (path) => (texts[path] === undefined ? undefined : new TextEncoder().encode(texts[path])),
      stat: async (path) => ({
        kind: 'directory',
        sizeBytes: 0,
        mode: 0o755,
        modifiedMs: path.endsWith('/young') ? clock.nowMs() : old,
      }),
      remove: async (path) => void removed.push(path),
      writeAtomic: refuse,
      createExclusive: refuse,
      makeDirectory: refuse,
      rename: refuse,
      removeTemporary: refuse,
      sync: refuse,
    },
  };
  await pruneCache(host, { directory: '/cache/layers', keep: '/cache/layers/wanted' });
  expect(removed).toEqual(['/cache/layers/old', '/cache/layers/torn.partial']);
});
