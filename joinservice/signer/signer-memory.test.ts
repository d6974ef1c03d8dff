import { expect, test } from '@jest/globals';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { SignerMemory } from './signer-memory.ts';

const statement = (timeMs: number) => ({ id: String(timeMs), timeMs });

test('statements about the disk of one machine, with any number of attestation keys, make the signer forget only those of this machine', () => {
  const memory = new SignerMemory({ files: new MemoryFiles(), directory: '/memory' });
  memory.workers.keep('node-1', statement(1));
  memory.disks.keep('tpm-ek:a', 'ak', statement(2));
  for (let i = 0; i < 10_000; i++) memory.disks.keep('tpm-ek:b', `ak-${i}`, statement(i));
  expect(memory.workers.get('node-1')).toEqual(statement(1));
  expect(memory.disks.get('tpm-ek:a', 'ak')).toEqual(statement(2));
  const kept = Array.from({ length: 10_000 }, (_, i) => memory.disks.get('tpm-ek:b', `ak-${i}`));
  expect(kept.filter((each) => each !== undefined)).toEqual([9_996, 9_997, 9_998, 9_999].map(statement));
});

test('statements about the disks of any number of machines make it forget those about disks only', () => {
  const memory = new SignerMemory({ files: new MemoryFiles(), directory: '/memory' });
  memory.workers.keep('node-1', statement(1));
  for (let i = 0; i < 8_193; i++) memory.disks.keep(`tpm-ek:${i}`, 'ak', statement(i));
  expect(memory.workers.get('node-1')).toEqual(statement(1));
  expect([0, 1, 8_192].map((i) => memory.disks.get(`tpm-ek:${i}`, 'ak')?.timeMs)).toEqual([
    undefined,
    1,
    8_192,
  ]);
});
