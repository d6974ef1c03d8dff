import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../testing/index.ts';
import { FakeTpm } from '../testing/tpm/fake-tpm.ts';
import { HIERARCHY } from './commands/hierarchies.ts';
import { createPrimary } from './commands/keys.ts';
import { attestationKeyTemplate } from './structures/templates.ts';
import { Tpm } from './tpm.ts';

const never = new AbortController().signal;

function setUp(options: { readonly canStayOpen?: boolean; readonly maxWaiting?: number } = {}) {
  const clock = new FakeClock();
  const fake = new FakeTpm({ clock });
  const { canStayOpen = true, ...rest } = options;
  const source = { address: 'fake', canStayOpen, open: () => fake.open() };
  return { clock, fake, tpm: new Tpm({ source, clock, ...rest }) };
}

describe('Tpm.use()', () => {
  test('runs one task at a time, in order', async () => {
    const { tpm } = setUp();
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const first = tpm.use(never, async () => {
      order.push('first in');
      await gate.promise;
      order.push('first out');
    });
    const second = tpm.use(never, async () => void order.push('second'));
    await settle();
    expect(order).toEqual(['first in']);
    gate.resolve();
    await Promise.all([first, second]);
    expect(order).toEqual(['first in', 'first out', 'second']);
  });

  test('runs the next task after a failed one', async () => {
    const { tpm } = setUp();
    await expect(tpm.use(never, () => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
    await expect(tpm.use(never, async () => 'fine')).resolves.toBe('fine');
  });

  test('sends TPM2_Startup to a TPM that was not started', async () => {
    const { fake, tpm } = setUp();
    fake.script.push(0x100, 0x101); // TPM_RC_INITIALIZE; then the TPM refuses TPM2_Startup, which ends the task
    await expect(tpm.use(never, async () => 'never')).rejects.toMatchObject({
      details: { command: 'startup' },
    });
    expect(fake.commands).toEqual([0x017a, 0x0144]);
  });

  test('flushes objects that a crashed program left behind', async () => {
    const { fake, tpm } = setUp();
    fake.loaded.add(0x80000000).add(0x80000005);
    await tpm.use(never, async () => undefined);
    expect(fake.loaded.size).toBe(0);
  });

  test('keeps a device open, and closes a software TPM when no task waits', async () => {
    const held = setUp({ canStayOpen: true });
    await held.tpm.use(never, async () => undefined);
    await held.tpm.use(never, async () => undefined);
    expect(held.fake.opened).toBe(1);
    const shared = setUp({ canStayOpen: false });
    const load = (tpm: Tpm) =>
      tpm.use(never, (connection, signal) =>
        createPrimary(
          connection,
          { hierarchy: HIERARCHY.endorsement, template: attestationKeyTemplate() },
          signal,
        ),
      );
    await Promise.all([load(shared.tpm), load(shared.tpm)]);
    await settle();
    expect([shared.fake.opened, shared.fake.loaded.size]).toEqual([1, 0]);
    await load(shared.tpm);
    expect(shared.fake.opened).toBe(2);
  });

  test('rejects a waiting task immediately when its signal fires', async () => {
    const { tpm } = setUp();
    const gate = Promise.withResolvers<void>();
    const first = tpm.use(never, () => gate.promise);
    const abort = new AbortController();
    let ran = false;
    const second = tpm.use(abort.signal, async () => void (ran = true));
    abort.abort(new Error('enough'));
    await expect(second).rejects.toThrow('enough');
    gate.resolve();
    await first;
    await settle();
    expect(ran).toBe(false);
  });

  test('refuses more waiting tasks than configured', async () => {
    const { tpm } = setUp({ maxWaiting: 1 });
    const gate = Promise.withResolvers<void>();
    const first = tpm.use(never, () => gate.promise);
    await expect(tpm.use(never, async () => undefined)).rejects.toMatchObject({ code: 'tpm-busy' });
    gate.resolve();
    await first;
  });

  test('opens a new connection after a broken one', async () => {
    const clock = new FakeClock();
    const fake = new FakeTpm({ clock });
    let mute = true;
    const source = {
      address: 'fake',
      canStayOpen: true,
      open: async () => {
        const transport = await fake.open();
        const transmit: typeof transport.transmit = (command, signal) =>
          mute ? new Promise<Uint8Array>(() => undefined) : transport.transmit(command, signal);
        return { ...transport, transmit };
      },
    };
    const tpm = new Tpm({ source, clock, commandTimeLimitMs: 10 });
    const failed = expect(tpm.use(never, async () => 'never')).rejects.toMatchObject({ code: 'tpm-timeout' });
    await clock.advance(10);
    await failed;
    mute = false;
    await expect(tpm.use(never, async () => 'fine')).resolves.toBe('fine');
    expect(fake.opened).toBe(2);
  });

  test('is refused after the Tpm object was closed', async () => {
    const { tpm } = setUp();
    await tpm[Symbol.asyncDispose]();
    await expect(tpm.use(never, async () => undefined)).rejects.toMatchObject({ code: 'tpm-unavailable' });
  });
});
