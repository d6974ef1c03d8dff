import { describe, expect, test } from '@jest/globals';
import type { Provisioning } from '../../internal/config/index.ts';
import { createMemoryLogger, FakeClock, settle } from '../../internal/testing/index.ts';
import { requireUsableTpm } from './usable-tpm.ts';

const device: Provisioning['tpm'] = { kind: 'device', path: '/dev/tpmrm0', lockPcr: 15, sealedPcrs: [7] };

function createMachine(isBound: boolean, answers: readonly (string | undefined)[]) {
  const left = [...answers];
  let probes = 0;
  const clock = new FakeClock();
  const { log, records } = createMemoryLogger();
  const probe = async (): Promise<string | undefined> => {
    probes += 1;
    return left.length > 1 ? left.shift() : left[0];
  };
  const { signal } = new AbortController();
  const required = (tpm: Parameters<typeof requireUsableTpm>[1]['tpm']) =>
    requireUsableTpm({ clock, log }, { tpm, isBound: async () => isBound, signal, probe });
  return { clock, records, required, probed: () => probes };
}

describe('requireUsableTpm()', () => {
  test('waits for a driver that is loaded late, and logs that once', async () => {
    const { clock, records, required, probed } = createMachine(false, [
      'no such file',
      'no such file',
      undefined,
    ]);
    const ready = required(device);
    for (let second = 0; second < 2; second++) {
      await settle();
      await clock.advance(1000);
    }
    await ready;
    expect(probed()).toBe(3);
    expect(records.map(({ message }) => message)).toEqual(['TPM not usable, retrying']);
  });

  test('rejects on a machine without a cluster whose TPM never answers', async () => {
    const { clock, required } = createMachine(false, ['no such file']);
    const outcome = expect(required(device)).rejects.toMatchObject({
      code: 'preflight-tpm-unusable',
      message: expect.stringContaining('no such file'),
    });
    for (let second = 0; second < 31; second++) {
      await settle();
      await clock.advance(1000);
    }
    await outcome;
  });

  test('resolves on a node, and on a machine without a TPM', async () => {
    const bound = createMachine(true, ['no such file']);
    await bound.required(device);
    const without = createMachine(false, ['no such file']);
    await without.required({ kind: 'none' });
    expect([bound.probed(), without.probed()]).toEqual([0, 0]);
  });
});
