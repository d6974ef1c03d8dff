import { describe, expect, test } from '@jest/globals';
import { clusterPaths, nodePaths } from './node-paths.ts';
import type { LocalNodeRecord } from './node-record.ts';
import { atTerminal, enterArgv, nspawnArgv } from './nspawn-command.ts';

const cluster = clusterPaths('/d/mini/a');
const record: LocalNodeRecord = {
  version: 1,
  name: 'n1',
  address: '198.18.7.11',
  layers: ['/c/layers/x', '/c/rootfs/y'],
  binds: [{ source: '/c/blobs', target: '/var/lib/cluster-seed/blobs', readOnly: true }],
  procFiles: {},
};

test("nspawnArgv() mounts the root file system in a private namespace and enters the node's network namespace", () => {
  const argv = nspawnArgv({ network: { number: 7 }, cluster, node: nodePaths(cluster, 'n1'), record });
  expect(argv.slice(0, 5)).toEqual(['unshare', '--mount', '--propagation', 'slave', '--']);
  expect(argv).toContain(
    'lowerdir=/c/layers/x:/c/rootfs/y,upperdir=/d/mini/a/nodes/n1/upper,workdir=/d/mini/a/nodes/n1/work',
  );
  expect(argv).toContain('--machine=clu7-n1');
  expect(argv).toContain('--hostname=n1');
  expect(argv).toContain('--network-namespace-path=/run/cluster-mini/clu7/node-n1');
  expect(argv).toContain('--bind-ro=/c/blobs:/var/lib/cluster-seed/blobs');
  expect(argv.slice(-2)).toEqual(['sh', '/usr/lib/cluster-mini/node-init']);
});

describe('enterArgv()', () => {
  test("passes a clean environment with the caller's variables", () => {
    const argv = enterArgv(4711, ['printenv'], { TERM: 'vt100' });
    const env = argv.slice(argv.indexOf('env'));
    expect(env.slice(0, 2)).toEqual(['env', '-i']);
    expect(env).toContain('TERM=vt100');
    expect(env).toContain('HOME=/root');
    expect(env.at(-1)).toBe('printenv');
  });

  test("enters exactly the namespaces of the node's process 1", () => {
    expect(enterArgv(4711, ['true'], {}).slice(0, 3)).toEqual(['nsenter', '--target', '4711']);
  });
});

test('atTerminal() passes every argument unchanged', () => {
  const argv = atTerminal(['sh', '-c', `echo "$HOME" 'a b' \\`]);
  expect(argv.at(-2)).toBe(`exec 'sh' '-c' 'echo "$HOME" '\\''a b'\\'' \\'`);
  expect(argv.slice(0, 4)).toEqual(['script', '--quiet', '--return', '--command']);
});
