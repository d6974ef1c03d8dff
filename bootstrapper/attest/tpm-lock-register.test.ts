import { expect, test } from '@jest/globals';
import { FakeClock, FakeTpm } from '../../internal/testing/index.ts';
import { Tpm } from '../../internal/tpm/index.ts';
import { createTpmLockRegister } from './tpm-lock-register.ts';

const NV_READ_PUBLIC = 0x0169;
const NV_DEFINE_SPACE = 0x012a;
const HANDLE_MISSING = 0x18b;
const BAD_AUTH = 0x9a2;
const NO_SUCH_COMMAND = 0x143;
const signal = new AbortController().signal;

/** Creates a register with a fake TPM that answers the next commands on NV memory with these codes. */
async function registerAnswering(...codes: readonly number[]) {
  const clock = new FakeClock();
  const fake = new FakeTpm({ clock });
  const tpm = new Tpm({ source: fake, clock });
  await tpm.use(signal, () => Promise.resolve()); // the TPM is opened and flushed, so the codes answer the counter's commands
  fake.commands.length = 0;
  fake.script.push(...codes);
  return { fake, register: createTpmLockRegister({ tpm, pcr: 15, signal }) };
}

test('createTpmLockRegister() has a counter that is undefined if the owner hierarchy has a password', async () => {
  const { fake, register } = await registerAnswering(HANDLE_MISSING, BAD_AUTH);
  expect(await register.counter.start()).toBeUndefined();
  expect(fake.commands).toEqual([NV_READ_PUBLIC, NV_DEFINE_SPACE]);
});

test('createTpmLockRegister() has a counter that rejects with any other error of the TPM', async () => {
  const { register } = await registerAnswering(HANDLE_MISSING, NO_SUCH_COMMAND);
  await expect(register.counter.start()).rejects.toMatchObject({ code: 'tpm-refused' });
});
