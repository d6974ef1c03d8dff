import { X509Certificate } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { FilePort } from '../../internal/file/index.ts';
import { everyFault, MemoryFiles } from '../../internal/testing/index.ts';
import { ensureClusterCa } from './cluster-ca.ts';

const directory = '/ca';
const ensure = (files: FilePort) =>
  ensureClusterCa({ files, nowMs: () => Date.UTC(2026, 0, 1) }, { directory, clusterName: 'blue' });
const textOf = async (files: FilePort, name: string): Promise<string> =>
  Buffer.from((await files.read(`${directory}/${name}`, 1e5)) ?? []).toString();

test('ensureClusterCa() creates the CA once: each later start loads the same certificate and key', async () => {
  const files = new MemoryFiles();
  const first = await ensure(files);
  const key = await textOf(files, 'ca.key');
  expect(new X509Certificate(first.caPem).subject).toContain('cluster blue');
  expect((await ensure(files)).caPem).toBe(first.caPem);
  expect(await textOf(files, 'ca.key')).toBe(key);
  expect((await files.stat(`${directory}/ca.key`))?.mode).toBe(0o600);
});

test('ensureClusterCa() ends with one CA after a crash at any write', async () => {
  for await (const { disk, name } of everyFault({
    faults: ['crash-before', 'crash-after', 'no-space'],
    prepare: async () => undefined,
    run: ensure,
  })) {
    const before = { key: await textOf(disk, 'ca.key'), cert: await textOf(disk, 'ca.crt') };
    // A certificate without its key could never sign again.
    expect({ name, isKeyFirst: before.cert === '' || before.key !== '' }).toEqual({ name, isKeyFirst: true });
    const { caPem } = await ensure(disk);
    if (before.key !== '') expect(await textOf(disk, 'ca.key')).toBe(before.key);
    if (before.cert !== '') expect(caPem).toBe(before.cert);
    expect((await ensure(disk)).caPem).toBe(caPem);
  }
});
