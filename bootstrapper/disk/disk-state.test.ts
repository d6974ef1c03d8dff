import { expect, test } from '@jest/globals';
import { realHeader } from '../../internal/luks/fake-header.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { RecordContent } from '../../internal/statedisk/index.ts';
import type { DiskPorts } from './disk-settings.ts';
import { commit } from './disk-state.ts';

const key = new Secret<Uint8Array>(new Uint8Array(32));
const { signal } = new AbortController();
const content: RecordContent = {
  ...{ uuid: '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f', nodeShare: new Uint8Array(9) },
  ...{ clusterShare: new Uint8Array(9), recovery: { kind: 'key', sealed: new Uint8Array(9) } },
  ...{ consoleRecovery: undefined, recipientsMac: undefined, approval: undefined },
  ...{ registers: new Map(), header: realHeader() },
};

test('commit() writes no record that the next start would refuse, and changes nothing then', async () => {
  const effects: string[] = [];
  const write = (): Promise<void> => Promise.resolve(void effects.push('write'));
  const tpm = { use: () => Promise.resolve(1n) };
  const next = { slots: { write, wipe: write } as never, slot: 0, content, key } as const;
  // The header in it is of another disk.
  await expect(commit({ tpm } as unknown as DiskPorts, next, signal)).rejects.toMatchObject({
    code: 'statedisk-changed',
  });
  expect(effects).toEqual([]);
});
