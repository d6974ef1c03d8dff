import { describe, expect, test } from '@jest/globals';
import { createPairs } from '../../../internal/keyset/index.ts';
import { FakeCommands, MemoryFiles } from '../../../internal/testing/index.ts';
import { removeRetiredCas } from './retired-cas.ts';
import { placeKubernetesKeys } from '../credentials/shared-keys.ts';

const never = new AbortController().signal;
const [previous, next] = [await createPairs(1, Date.now()), await createPairs(2, Date.now())];
const [oldClients, newClients] = [previous, next].map((pairs) =>
  pairs['kubernetes-clients-ca'].public.trim(),
);
const [oldProxy, newProxy] = [previous, next].map((pairs) => pairs['front-proxy-ca'].public.trim());

/** Returns the patch that removeRetiredCas() sends if the ConfigMap contains these CAs. */
async function patchOf(told: Record<string, string>): Promise<unknown> {
  const files = new MemoryFiles();
  await placeKubernetesKeys(files, { generation: 2, phase: 'retire', previous, next });
  const commands = new FakeCommands((argv) =>
    argv.includes('get') ? JSON.stringify({ kind: 'ConfigMap', data: told }) : undefined,
  );
  await removeRetiredCas({ commands, files }, never);
  const patch = commands.runs.find((argv) => argv.includes('patch'));
  return patch === undefined ? undefined : JSON.parse(patch.at(-1) ?? '');
}

describe('removeRetiredCas()', () => {
  test('removes CAs that are no longer trusted and keeps the others', async () => {
    const patch = await patchOf({
      'client-ca-file': `${oldClients}\n${newClients}\n`,
      'requestheader-client-ca-file': `${newProxy}\n${oldProxy}\n`,
      'requestheader-allowed-names': '["front-proxy-client"]',
    });
    expect(patch).toEqual({
      data: { 'client-ca-file': `${newClients}\n`, 'requestheader-client-ca-file': `${newProxy}\n` },
    });
  });

  test('changes nothing if all listed CAs are trusted', async () => {
    expect(
      await patchOf({
        'client-ca-file': `${newClients?.replaceAll('\n', '\r\n')}`,
        'requestheader-client-ca-file': `${newProxy}\n`,
      }),
    ).toBeUndefined();
    expect(await patchOf({})).toBeUndefined();
  });

  test('does not call the API before the first key rotation', async () => {
    const commands = new FakeCommands();
    await removeRetiredCas({ commands, files: new MemoryFiles() }, never);
    expect(commands.runs).toEqual([]);
  });
});
