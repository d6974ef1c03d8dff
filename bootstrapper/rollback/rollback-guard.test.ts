import { beforeEach, describe, expect, test } from '@jest/globals';
import { createLogger, type LogRecord } from '../../internal/logging/index.ts';
import { FakeClock, MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import { TpmError } from '../../internal/tpm/index.ts';
import type { MachineCounter } from '../attest/index.ts';
import type { ConfigurationFloors } from '../configuration/index.ts';
import { KeyStore } from '../keyrotation/index.ts';
import { ChecksummedFile } from '../membership/index.ts';
import { RollbackGuard, type FloorRecord } from './rollback-guard.ts';
import { rollbackRunnable } from './rollback-runnable.ts';

const NOW = 1_700_000_000_000;
const RECORD = '/m/record.json';
const CONFIGURATION = '/m/configuration.json';
const STAGE = '/k/stage.json';
const FLOORS = '/signer/floors.json';
const GRANT = '/signer/control-planes/n1.json';
const DISK = [RECORD, CONFIGURATION, STAGE, FLOORS, GRANT];

class PowerCut extends Error {}

/** A machine whose disk can be copied, and whose power can be cut at each effect. */
class TestMachine implements MachineCounter {
  readonly files = new MemoryFiles();
  readonly records: LogRecord[] = [];
  /** As in a TPM, the first value is above that of all earlier counters. */
  value: bigint | undefined;
  highest = 6n;
  hasTpm = true;
  responds = true;
  hasPassword = false;
  /** Whether a counter can still be created. */
  hasSpace = true;
  isMember = true;
  readonly clock = {
    nowValueMs: NOW,
    monotonicValueMs: 0,
    nowMs: () => this.clock.nowValueMs,
    monotonicMs: () => this.clock.monotonicValueMs,
  };
  /** The number of writes and increments until the power is cut. */
  left = Infinity;
  increments = 0;
  keys = this.#keys();
  configuration = new ChecksummedFile<ConfigurationFloors>(this.files, CONFIGURATION);
  guard = this.#start();

  #keys(): KeyStore {
    return new KeyStore(this.files, { rotation: '/k/r', newKeys: '/k/n', stage: STAGE, lastKey: '/k/l' });
  }

  #start(): RollbackGuard {
    const record = new ChecksummedFile<FloorRecord>(this.files, RECORD);
    const saves = <T>(file: ChecksummedFile<T>) => ({
      load: () => file.load(),
      save: async (value: T) => (this.#effect(), file.save(value)),
    });
    return new RollbackGuard({
      ...{ files: this.files, keys: this.keys, signerDirectory: '/signer' },
      record: saves(record),
      configurationFloors: saves(this.configuration),
      counter: this.hasTpm ? this : undefined,
      isMember: async () => this.isMember,
      clock: this.clock,
      log: createLogger({ path: 't', nowMs: () => 0, sink: (each) => this.records.push(each) }),
      signal: new AbortController().signal,
    });
  }

  /** The agent starts, or starts again. */
  async boot(): Promise<void> {
    this.left = Infinity;
    this.guard = this.#start();
    await this.guard.check();
  }

  #effect(): void {
    if (this.left-- <= 0) throw new PowerCut();
  }

  #requireResponse(): void {
    if (!this.responds) throw new Error('the TPM does not respond');
  }

  async read(): Promise<bigint | undefined> {
    this.#requireResponse();
    return this.value;
  }

  async start(): Promise<bigint | undefined> {
    this.#requireResponse();
    this.#effect();
    if (this.value === undefined && this.hasPassword) return undefined;
    if (this.value === undefined && !this.hasSpace) throw new TpmError('tpm-refused', 'no space');
    this.value ??= this.highest += 1n;
    return this.value;
  }

  async increment(): Promise<void> {
    this.#requireResponse();
    this.#effect();
    this.increments += 1;
    this.value = this.highest += 1n;
  }

  /** Agent and signer accept documents with this serial. */
  async accept(serial: number): Promise<void> {
    await this.keys.saveFloors({ keys: { serial }, owners: { serial } });
    await this.configuration.save({ ...(await this.configuration.load()), policy: { serial } });
    await this.files.makeDirectory('/signer/control-planes');
    await this.files.writeAtomic(FLOORS, JSON.stringify({ version: 1, operators: { serial, sha256: 'x' } }));
    await this.files.writeAtomic(GRANT, JSON.stringify({ nodeId: 'n1', more: 1, grant: { serial } }));
  }

  /** Copies the disk. Returns a function that restores it, or some of its files. */
  async copy(): Promise<(only?: readonly string[]) => Promise<void>> {
    const bytes = new Map<string, Uint8Array | undefined>();
    for (const path of DISK) bytes.set(path, await this.files.read(path, 65_536));
    return async (only = DISK) => {
      for (const path of only) {
        const old = bytes.get(path);
        if (old === undefined) await this.files.remove(path);
        else await this.files.writeAtomic(path, old);
      }
    };
  }

  async stored(): Promise<FloorRecord | undefined> {
    return new ChecksummedFile<FloorRecord>(this.files, RECORD).load();
  }
}

let machine: TestMachine;
beforeEach(async () => {
  machine = new TestMachine();
  await machine.boot();
  await machine.accept(1);
  await machine.guard.check();
});

describe('RollbackGuard', () => {
  test('records the serials of every accepted document with the next value of the counter, once', async () => {
    expect(machine.increments).toBe(1);
    await machine.accept(2);
    await machine.guard.check();
    await machine.guard.check();
    await machine.boot();
    expect(machine.increments).toBe(2);
    expect(await machine.stored()).toEqual({
      count: machine.value?.toString(),
      serials: {
        ...{ 'keys/keys': 2, 'keys/owners': 2, 'configuration/policy': 2 },
        ...{ 'signer/operators': 2, 'signer/grant/n1': 2 },
      },
    });
    expect(machine.guard.signedAfterMs).toBeUndefined();
    expect(machine.records).toEqual([]);
  });

  test('writes nothing on a machine that has accepted no document', async () => {
    const fresh = new TestMachine();
    await fresh.boot();
    expect(await fresh.stored()).toBeUndefined();
    expect(fresh.value).toBeUndefined();
  });

  test('completes a change that a power cut interrupted at any effect, of the first record too', async () => {
    for (let effects = 0; effects < 6; effects++) {
      for (const isFirst of [true, false]) {
        const cut = new TestMachine();
        await cut.boot();
        if (!isFirst) {
          await cut.accept(1);
          await cut.guard.check();
        }
        await cut.accept(2);
        cut.left = effects;
        await cut.guard.check();
        await cut.boot();
        await cut.guard.check();
        expect(cut.guard.signedAfterMs).toBeUndefined();
        expect(await cut.stored()).toMatchObject({
          count: cut.value?.toString(),
          serials: { 'signer/grant/n1': 2 },
        });
      }
    }
  });

  test('reports no rollback on a machine that was reset and joined again', async () => {
    for (const path of DISK) await machine.files.remove(path);
    machine.isMember = false;
    await machine.boot();
    machine.isMember = true;
    await machine.boot();
    expect(machine.guard.signedAfterMs).toBeUndefined();
  });

  test('reports no rollback on such a machine if its TPM responds only after the join', async () => {
    for (const path of DISK) await machine.files.remove(path);
    machine.isMember = false;
    machine.responds = false;
    await machine.boot();
    machine.isMember = true;
    machine.responds = true;
    await machine.guard.check();
    expect(machine.guard.signedAfterMs).toBeUndefined();
  });

  test.each([
    { name: 'while', boots: false },
    { name: 'after a start at which', boots: true },
  ])('forgets the documents of the signer $name the TPM does not respond', async ({ boots }) => {
    machine.responds = false;
    if (boots) await machine.boot();
    await machine.guard.forgetSigner(() => machine.files.remove('/signer'));
    machine.responds = true;
    await machine.guard.check();
    await machine.boot();
    expect(machine.guard.signedAfterMs).toBeUndefined();
  });

  test('forgets the documents of the signer with its files, also after a power cut in between', async () => {
    const remove = () => machine.files.remove('/signer');
    await machine.guard.forgetSigner(() => Promise.reject(new PowerCut())).catch(() => undefined);
    await machine.boot();
    await machine.guard.forgetSigner(remove);
    await machine.guard.check();
    await machine.boot();
    expect(machine.guard.signedAfterMs).toBeUndefined();
    expect(Object.keys((await machine.stored())?.serials ?? {})).toEqual([
      ...['keys/owners', 'keys/keys', 'configuration/policy'],
    ]);
  });
});

const old: readonly {
  readonly name: string;
  readonly restore: (machine: TestMachine) => Promise<void>;
}[] = [
  { name: 'all files were restored from the copy', restore: async () => undefined },
  {
    name: 'the files were restored, and the record of the guard is missing',
    restore: (at) => at.files.remove(RECORD),
  },
  {
    name: 'the files were restored, and the record of the guard is damaged',
    restore: (at) => at.files.writeAtomic(RECORD, '{"version":1'),
  },
  {
    name: 'the files were restored, and the counter of the TPM was deleted',
    restore: async (at) => void (at.value = undefined),
  },
  {
    name: 'the files were restored to a machine with another TPM',
    restore: async (at) => void (at.value = 3n),
  },
];
describe('RollbackGuard detects that the disk is an old copy', () => {
  test.each(old)('when $name', async ({ restore }) => {
    const before = await machine.copy();
    await machine.accept(2);
    await machine.guard.check();
    await before();
    await restore(machine);
    await machine.boot();
    expect(machine.guard.signedAfterMs).toBe(NOW);
    expect(await machine.keys.loadFloors()).toMatchObject({ keys: { serial: 1 }, signedAfterMs: NOW });
    expect(await machine.configuration.load()).toMatchObject({ policy: { serial: 1 }, signedAfterMs: NOW });
    expect(machine.records).toMatchObject([
      { level: 'error', fields: { code: 'owner-document-before-rollback' } },
    ]);
  });

  test.each([CONFIGURATION, STAGE, FLOORS, GRANT])(
    'when only %s was restored from the copy',
    async (path) => {
      const before = await machine.copy();
      await machine.accept(2);
      await machine.guard.check();
      await before([path]);
      await machine.boot();
      expect(machine.guard.signedAfterMs).toBe(NOW);
    },
  );

  test('when the copy is from a time in which the TPM could not increment the counter', async () => {
    await machine.accept(2);
    machine.left = 2;
    await machine.guard.check();
    const before = await machine.copy();
    machine.left = Infinity;
    await machine.accept(3);
    await machine.guard.check();
    await before();
    await machine.boot();
    expect(machine.guard.signedAfterMs).toBe(NOW);
  });

  test.each([
    { name: 'ahead', offMs: 1e12 },
    { name: 'behind', offMs: -1e11 },
  ])('and corrects the time of the detection if the clock was $name until it was set', async ({ offMs }) => {
    const before = await machine.copy();
    await machine.accept(2);
    await machine.guard.check();
    await before();
    machine.clock.nowValueMs = NOW + offMs;
    await machine.boot();
    const found = (): Promise<unknown> => machine.keys.loadFloors();
    expect(await found()).toMatchObject({ signedAfterMs: NOW + offMs });
    machine.clock.monotonicValueMs += 60_000;
    machine.clock.nowValueMs = NOW + 60_000;
    await machine.guard.check();
    expect(machine.guard.signedAfterMs).toBe(NOW);
    expect(await found()).toMatchObject({ signedAfterMs: NOW });
    machine.clock.monotonicValueMs += 3_600_000;
    machine.clock.nowValueMs = NOW - 1e9;
    await machine.guard.check();
    expect(machine.guard.signedAfterMs).toBe(NOW);
  });

  test('and logs one error, not one at each restart, until the copy is restored again', async () => {
    const before = await machine.copy();
    await machine.accept(2);
    await machine.guard.check();
    await before();
    for (let boots = 0; boots < 3; boots++) await machine.boot();
    await machine.accept(3);
    await machine.guard.check();
    await machine.boot();
    expect(machine.guard.signedAfterMs).toBe(NOW);
    expect(machine.records).toHaveLength(1);
    await before();
    await machine.boot();
    expect(machine.records).toHaveLength(2);
  });

  test('and saves the time of the detection again after only the files with this time were restored', async () => {
    const before = await machine.copy();
    await machine.accept(2);
    await machine.guard.check();
    await before();
    await machine.boot();
    await before([STAGE, CONFIGURATION]);
    await machine.boot();
    expect(await machine.keys.loadFloors()).toMatchObject({ signedAfterMs: NOW });
    expect(await machine.configuration.load()).toMatchObject({ signedAfterMs: NOW });
  });

  test('also if a power cut interrupts the guard at any write or increment', async () => {
    const before = await machine.copy();
    await machine.accept(2);
    await machine.guard.check();
    for (let effects = 0; effects < 6; effects++) {
      await before();
      const booting = machine.boot();
      machine.left = effects;
      await booting;
      await machine.boot();
      expect(machine.guard.signedAfterMs).toBe(NOW);
      expect(await machine.keys.loadFloors()).toMatchObject({ signedAfterMs: NOW });
      expect(await machine.configuration.load()).toMatchObject({ signedAfterMs: NOW });
    }
  });
});

describe('RollbackGuard without a usable counter in the TPM', () => {
  test('trusts no owner document for new decisions until the TPM responds', async () => {
    machine.responds = false;
    await machine.boot();
    await machine.guard.check();
    expect(machine.guard.signedAfterMs).toBeGreaterThan(NOW);
    expect(machine.records).toHaveLength(1);
    machine.responds = true;
    await machine.guard.check();
    expect(machine.guard.signedAfterMs).toBeUndefined();
  });

  test('compares only the files with each other if a password protects the owner hierarchy of the TPM', async () => {
    const locked = new TestMachine();
    locked.hasPassword = true;
    await locked.boot();
    await locked.accept(2);
    await locked.guard.check();
    await locked.boot();
    expect(locked.guard.signedAfterMs).toBeUndefined();
    await locked.accept(1);
    await locked.boot();
    expect(locked.guard.signedAfterMs).toBe(NOW);
  });

  test('compares only the files with each other if the TPM cannot create another counter, also after a restart', async () => {
    const full = new TestMachine();
    full.hasSpace = false;
    await full.boot();
    await full.accept(2);
    await full.guard.check();
    await full.boot();
    expect(full.guard.signedAfterMs).toBeUndefined();
    await full.accept(1);
    await full.boot();
    expect(full.guard.signedAfterMs).toBe(NOW);
  });

  test('detects nothing if the machine has no TPM, but still deletes the files of the signer on request', async () => {
    const plain = new TestMachine();
    plain.hasTpm = false;
    await plain.boot();
    await plain.accept(2);
    await plain.guard.check();
    expect(await plain.stored()).toBeUndefined();
    await plain.guard.forgetSigner(() => plain.files.remove('/signer'));
    expect(await plain.files.list('/signer')).toEqual([]);
    expect(plain.guard.signedAfterMs).toBeUndefined();
  });
});

test('rollbackRunnable() checks every ten seconds, and says that the disk is an old copy', async () => {
  const clock = new FakeClock();
  await using tree = superviseForTest(rollbackRunnable({ rollback: machine.guard, clock }), { clock });
  await settle();
  expect(tree.at('root').note).toBe('newer owner documents');
  const before = await machine.copy();
  await machine.accept(2);
  await clock.advance(10_000);
  expect((await machine.stored())?.serials['keys/keys']).toBe(2);
  await before([STAGE]);
  await clock.advance(10_000);
  expect(tree.at('root').note).toMatch(
    /^owner documents signed after 2023-11-14T.*: the disk is an old copy$/,
  );
});

test('rollbackRunnable() says that it waits for the TPM, and not that the disk is an old copy', async () => {
  machine.responds = false;
  await machine.boot();
  const clock = new FakeClock();
  await using tree = superviseForTest(rollbackRunnable({ rollback: machine.guard, clock }), { clock });
  await settle();
  expect(tree.at('root').note).toMatch(/^the TPM: /);
});
