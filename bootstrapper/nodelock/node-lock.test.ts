import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskFiles } from '../../internal/file/index.ts';
import { lockedValue } from '../../internal/attestation/index.ts';
import { createHash } from 'node:crypto';
import { NodeLock, type LockClaim, type LockCounter, type LockRegister } from './node-lock.ts';

let directory: string;
beforeEach(async () => void (directory = await mkdtemp(join(tmpdir(), 'nodelock-'))));
afterEach(() => rm(directory, { recursive: true }));

const createLock = (register?: LockRegister): NodeLock =>
  new NodeLock({
    files: new DiskFiles(),
    path: join(directory, 'lock.json'),
    nowMs: () => 7,
    ...(register === undefined ? {} : { register }),
  });

/** A fake NV counter. A new one starts above the highest value that any counter of its TPM ever had. */
class FakeCounter implements LockCounter {
  value: bigint | undefined;
  isThere = true;
  highest = 4n;

  start(): Promise<bigint | undefined> {
    if (this.isThere) this.value ??= ++this.highest;
    return Promise.resolve(this.value);
  }

  increment(): Promise<void> {
    this.value = ++this.highest;
    return Promise.resolve();
  }

  undefine(): void {
    this.value = undefined;
  }
}

/** A fake PCR. It is zero at power-on, and remembers each extension. */
class FakeRegister implements LockRegister {
  value = Buffer.alloc(32);
  extensions = 0;
  failure: Error | undefined;

  read(): Promise<Uint8Array> {
    return this.failure === undefined ? Promise.resolve(this.value) : Promise.reject(this.failure);
  }

  extend(clusterId: string): Promise<void> {
    this.extensions++;
    this.value = Buffer.from(lockedValue(this.value, clusterId));
    return Promise.resolve();
  }

  readonly counter = new FakeCounter();

  powerCycle(): void {
    this.value = Buffer.alloc(32);
  }
}
const init: LockClaim = { clusterId: 'a'.repeat(32), by: 'init', id: 'init-1' };
const ticket: LockClaim = { clusterId: 'b'.repeat(32), by: 'join', id: 'ticket-1' };

describe('NodeLock', () => {
  test('acquire() lets exactly one of an init and a join win, in a hundred rounds', async () => {
    for (let round = 0; round < 100; round++) {
      await rm(join(directory, 'lock.json'), { force: true });
      const claims = round % 2 === 0 ? [init, ticket] : [ticket, init];
      const outcomes = await Promise.allSettled(claims.map((claim) => createLock().acquire(claim)));
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const loser = outcomes.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
      expect(loser.reason).toMatchObject({ code: 'nodelock-held' });
    }
  });

  test('acquire() succeeds again for the holder, even after a restart of the agent', async () => {
    const first = await createLock().acquire(init);
    expect(await createLock().acquire(init)).toEqual(first);
    expect(await createLock().read()).toEqual(first);
  });

  test('acquire() refuses a second init and names the cluster of the machine', async () => {
    await createLock().acquire(init);
    const second = createLock().acquire({ ...init, id: 'init-2' });
    await expect(second).rejects.toMatchObject({
      code: 'nodelock-held',
      details: { clusterId: init.clusterId },
    });
  });

  test('read() returns undefined only when there is no lock', async () => {
    expect(await createLock().read()).toBeUndefined();
  });

  const damages = [
    { name: 'an empty file', text: '' },
    { name: 'a truncated file', text: '{"version":1,"clus' },
    { name: 'an unknown version', text: JSON.stringify({ version: 2, ...init, lockedAtMs: 1 }) },
    {
      name: 'an invalid counter',
      text: JSON.stringify({ version: 1, ...init, lockedAtMs: 1, counterBaseline: 5 }),
    },
    { name: 'null', text: 'null' },
  ];
  test.each(damages)('treats $name as damaged, never as unlocked, and leaves it alone', async ({ text }) => {
    await writeFile(join(directory, 'lock.json'), text);
    await expect(createLock().read()).rejects.toMatchObject({ code: 'nodelock-damaged' });
    await expect(createLock().acquire(init)).rejects.toMatchObject({ code: 'nodelock-damaged' });
    expect(await readFile(join(directory, 'lock.json'), 'utf8')).toBe(text);
  });

  describe('with a PCR', () => {
    let register: FakeRegister;
    beforeEach(() => void (register = new FakeRegister()));
    const locked = Buffer.from(lockedValue(Buffer.alloc(32), init.clusterId));

    test('extends the PCR once, however often the lock is acquired and the agent restarts', async () => {
      await createLock(register).mirrorToRegister();
      expect(register.extensions).toBe(0);
      await createLock(register).acquire(init);
      await createLock(register).acquire(init);
      await Promise.all([createLock(register).mirrorToRegister(), createLock(register).mirrorToRegister()]);
      expect(register).toMatchObject({ value: locked, extensions: 1 });
    });

    test('extends the PCR again after a power cycle', async () => {
      await createLock(register).acquire(init);
      register.powerCycle();
      await createLock(register).mirrorToRegister();
      expect(register.value).toEqual(locked);
    });

    test('extends the PCR at the next start after a crash between the writes to file and PCR', async () => {
      const crashed = new FakeRegister();
      crashed.extend = () => Promise.reject(new Error('killed'));
      await expect(createLock(crashed).acquire(init)).rejects.toThrow('killed');
      await createLock(register).mirrorToRegister();
      expect(register.value).toEqual(locked);
    });

    test('extends the PCR from its value at boot', async () => {
      register.value = createHash('sha256').update('boot').digest();
      const baseline = register.value;
      await createLock(register).acquire(init);
      expect(register.value).toEqual(Buffer.from(lockedValue(baseline, init.clusterId)));
    });

    test('does not extend a PCR that another program has extended', async () => {
      await createLock(register).acquire(init);
      register.value = createHash('sha256').update('other').digest();
      await expect(createLock(register).mirrorToRegister()).rejects.toMatchObject({
        code: 'nodelock-register-mismatch',
      });
      expect(register.extensions).toBe(1);
    });

    test('acquire() fails and writes no lock while the TPM does not answer', async () => {
      register.failure = new Error('no TPM');
      await expect(createLock(register).acquire(init)).rejects.toThrow('no TPM');
      expect(await createLock().read()).toBeUndefined();
    });

    test('the NV counter counts each lock once, even after restarts and power cycles', async () => {
      await createLock(register).acquire(init);
      expect(register.counter.value).toBe(6n);
      for (let boot = 0; boot < 3; boot++) {
        register.powerCycle();
        await createLock(register).acquire(init);
      }
      expect(register.counter.value).toBe(6n);
    });

    test('the NV counter counts a lock once when the agent crashes before or after the increment', async () => {
      const { counter } = register;
      const counting = counter.increment.bind(counter);
      counter.increment = () => Promise.reject(new Error('killed'));
      await expect(createLock(register).acquire(init)).rejects.toThrow('killed');
      expect(register.extensions).toBe(0);
      counter.increment = counting;
      const extending = register.extend.bind(register);
      register.extend = () => Promise.reject(new Error('killed again'));
      await expect(createLock(register).mirrorToRegister()).rejects.toThrow('killed again');
      register.extend = extending;
      await createLock(register).mirrorToRegister();
      expect(counter.value).toBe(6n);
      expect(register.value).toEqual(locked);
    });

    test('the counter increases when a machine is wiped and locked again, and an old disk does not set it back', async () => {
      await createLock(register).acquire(init);
      const disk = await readFile(join(directory, 'lock.json'));
      await rm(join(directory, 'lock.json'));
      register.powerCycle();
      await createLock(register).acquire(ticket);
      expect(register.counter.value).toBe(7n);
      await writeFile(join(directory, 'lock.json'), disk);
      register.powerCycle();
      await createLock(register).mirrorToRegister();
      expect(register.counter.value).toBe(7n);
    });

    test('after a reset without a reboot, locking to the same cluster again keeps the value of the PCR and increases the counter', async () => {
      await createLock(register).acquire(init);
      await rm(join(directory, 'lock.json'));
      await createLock(register).acquire({ ...init, id: 'init-2' });
      expect(register).toMatchObject({ value: locked, extensions: 1, counter: { value: 7n } });
      register.powerCycle();
      await createLock(register).mirrorToRegister();
      expect(register).toMatchObject({ value: locked, extensions: 2, counter: { value: 7n } });
    });

    test('after a reset without a reboot, locking to another cluster extends the PCR to a value that no verifier accepts', async () => {
      await createLock(register).acquire(init);
      await rm(join(directory, 'lock.json'));
      await createLock(register).acquire(ticket);
      expect(register.value).toEqual(Buffer.from(lockedValue(locked, ticket.clusterId)));
    });

    test('a counter that was deleted from the TPM is created again with a higher value', async () => {
      await createLock(register).acquire(init);
      register.counter.undefine();
      register.powerCycle();
      await createLock(register).mirrorToRegister();
      expect(register.counter.value).toBe(7n);
    });

    test('acquire() works even on a machine without a counter', async () => {
      register.counter.isThere = false;
      const record = await createLock(register).acquire(init);
      expect(record).not.toHaveProperty('counterBaseline');
      expect(register.value).toEqual(locked);
    });

    test('does not extend the PCR for a ticket that lost against an init', async () => {
      await createLock(register).acquire(init);
      await expect(createLock(register).acquire(ticket)).rejects.toMatchObject({ code: 'nodelock-held' });
      expect(register.extensions).toBe(1);
    });
  });
});
