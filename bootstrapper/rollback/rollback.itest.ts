import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { DiskFiles } from '../../internal/file/index.ts';
import { createLogger } from '../../internal/logging/index.ts';
import {
  closeOpened,
  createSwtpmFactory,
  opened,
  temporaryDirectory,
  type SwtpmFactory,
} from '../../internal/testing/index.ts';
import { undefineNv } from '../../internal/testing/tpm/test-commands.ts';
import { defineCounter, type Tpm } from '../../internal/tpm/index.ts';
import { createTpmCounter } from '../attest/index.ts';
import type { ConfigurationFloors } from '../configuration/index.ts';
import { KeyStore } from '../keyrotation/index.ts';
import { ChecksummedFile } from '../membership/index.ts';
import { FLOOR_COUNTER, RollbackGuard, type FloorRecord } from './index.ts';

const NOW = 1_700_000_000_000;
const signal = new AbortController().signal;
const files = new DiskFiles();

let factory: SwtpmFactory;
let directory: string;
beforeAll(async () => {
  factory = await createSwtpmFactory();
}, 60_000);
afterAll(async () => void (await factory[Symbol.asyncDispose]()));
beforeEach(async () => {
  directory = opened(await temporaryDirectory()).path;
  const fresh = await factory.start({ copy: 'machine' });
  await fresh[Symbol.asyncDispose]();
});
afterEach(closeOpened);

const disk = (): string => join(directory, 'disk');

/** Switches the machine on, with the state that its TPM had before, and off again. */
async function withTpm<T>(use: (tpm: Tpm) => Promise<T>): Promise<T> {
  await using chip = await factory.start({ again: 'machine' });
  await using tpm = chip.open();
  return await use(tpm);
}

/** Starts the agent, and lets it accept a document with this serial. */
function run(serial?: number): Promise<number | undefined> {
  return withTpm(async (tpm) => {
    const at = (name: string): string => join(disk(), name);
    const paths = { rotation: at('r'), newKeys: at('n'), stage: at('stage.json'), lastKey: at('l') };
    const keys = new KeyStore(files, paths);
    const guard = new RollbackGuard({
      ...{ files, keys, signal, signerDirectory: at('signer') },
      record: new ChecksummedFile<FloorRecord>(files, at('record.json')),
      configurationFloors: new ChecksummedFile<ConfigurationFloors>(files, at('configuration.json')),
      counter: createTpmCounter({ tpm, counter: FLOOR_COUNTER, signal }),
      isMember: async () => true,
      clock: { nowMs: () => NOW, monotonicMs: () => 0 },
      log: createLogger({ path: 't', nowMs: () => 0, sink: () => undefined }),
    });
    await guard.check();
    if (serial !== undefined) await keys.saveFloors({ keys: { serial } });
    await guard.check();
    return guard.signedAfterMs;
  });
}

const copy = (name: string): Promise<void> => cp(disk(), join(directory, name), { recursive: true });
async function restore(name: string): Promise<void> {
  await rm(disk(), { recursive: true });
  await cp(join(directory, name), disk(), { recursive: true });
}

describe('RollbackGuard with the counter of a TPM', () => {
  test('finds an old copy of the disk, and none before or after', async () => {
    await run(1);
    await copy('old');
    expect(await run(2)).toBeUndefined();
    await copy('new');
    await restore('old');
    expect(await run()).toBe(NOW);
    expect(await run(3)).toBe(NOW);
    await restore('new');
    expect(await run()).toBe(NOW);
  });

  test('finds an old copy by the files alone if the TPM has no space for the counter, also after a restart', async () => {
    const refused = await withTpm((tpm) =>
      tpm.use(signal, async (connection, task) => {
        for (let index = 0x01810000; ; index++) {
          const ended = await defineCounter(connection, index, new Uint8Array(), task).catch(String);
          if (ended !== undefined) return ended;
        }
      }),
    );
    expect(refused).toContain('nvDefineSpace');
    expect(await run(1)).toBeUndefined();
    await copy('old');
    expect(await run(2)).toBeUndefined();
    await cp(join(directory, 'old', 'stage.json'), join(disk(), 'stage.json'));
    expect(await run()).toBe(NOW);
  });

  test('finds an old copy although somebody has deleted the counter and started it again', async () => {
    await run(1);
    await copy('old');
    await run(2);
    await restore('old');
    await withTpm(async (tpm) => {
      const { index } = FLOOR_COUNTER.definition;
      await tpm.use(signal, (connection, task) => undefineNv(connection, index, task));
      await createTpmCounter({ tpm, counter: FLOOR_COUNTER, signal }).start();
    });
    expect(await run()).toBe(NOW);
  });
});
