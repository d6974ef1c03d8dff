import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { deviceSource } from './device-transport.ts';

const never = new AbortController().signal;

test('deviceSource() reports a missing device', async () => {
  const source = deviceSource('/nowhere/tpmrm0');
  expect([source.canStayOpen, source.address]).toEqual([true, '/nowhere/tpmrm0']);
  await expect(source.open(never)).rejects.toMatchObject({ code: 'tpm-unavailable' });
});

test('deviceSource() sends a command in one write and reads the response in one read', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-device-'));
  const path = join(directory, 'device');
  // A regular file, unlike a device, is read from the position after the written bytes.
  await writeFile(path, Uint8Array.of(0, 0, 0, 7, 8, 9));
  try {
    await using transport = await deviceSource(path).open(never);
    expect(await transport.transmit(Uint8Array.of(1, 2, 3), never)).toEqual(Uint8Array.of(7, 8, 9));
    await expect(transport.transmit(Uint8Array.of(1), never)).rejects.toMatchObject({
      code: 'tpm-malformed',
    });
  } finally {
    await rm(directory, { recursive: true });
  }
});
