import { describe, expect, test } from '@jest/globals';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS } from '../../../internal/bundle/index.ts';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { contextOf, ROOT } from '../init/fake-workstation.ts';
import { runConfigGenerate, type GenerateFlags } from './config.ts';

const FIRST = { name: 'prod', variants: 'tpm', endpoint: '192.0.2.1', local: true } as const;

async function generated(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  await runConfigGenerate(contextOf(files), FIRST);
  return files;
}

async function textIn(files: MemoryFiles): Promise<string> {
  return Buffer.from((await files.read(`${ROOT}/cluster.yaml`, 1e6)) ?? []).toString();
}

describe('runConfigGenerate() with an existing cluster.yaml', () => {
  test.each<{ readonly name: string; readonly flags: GenerateFlags }>([
    { name: 'no flags', flags: {} },
    { name: 'the same flags', flags: { ...FIRST, kubernetesVersion: DEFAULT_KUBERNETES_VERSION } },
  ])('changes nothing and succeeds with $name', async ({ flags }) => {
    const files = await generated();
    const before = await textIn(files);
    await runConfigGenerate(contextOf(files), flags);
    expect(await textIn(files)).toBe(before);
  });

  test.each<{ readonly flag: string; readonly flags: GenerateFlags }>([
    { flag: '--name', flags: { name: 'other' } },
    { flag: '--kubernetes-version', flags: { kubernetesVersion: KUBERNETES_VERSIONS[0] } },
    { flag: '--node', flags: { endpoint: '192.0.2.2' } },
    { flag: '--fingerprint', flags: { fingerprint: `sha256:${'a'.repeat(64)}` } },
    { flag: '--attestation', flags: { variants: 'tpm,machine-key' } },
  ])('refuses $flag if it differs from the file, and changes nothing', async ({ flag, flags }) => {
    const files = await generated();
    const before = await textIn(files);
    await expect(runConfigGenerate(contextOf(files), flags)).rejects.toMatchObject({
      code: 'cluster-config-exists',
      message: expect.stringContaining(flag),
    });
    expect(await textIn(files)).toBe(before);
  });

  test('refuses --local if the file has other networks', async () => {
    const files = new MemoryFiles();
    await runConfigGenerate(contextOf(files), { variants: 'tpm' });
    await expect(runConfigGenerate(contextOf(files), { local: true })).rejects.toMatchObject({
      code: 'cluster-config-exists',
    });
  });
});
