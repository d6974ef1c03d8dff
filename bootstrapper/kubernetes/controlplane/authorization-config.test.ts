import { expect, test } from '@jest/globals';
import { KUBERNETES_GROUPS, type RecordedPerson } from '../../../internal/role/index.ts';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { PATHS } from '../settings.ts';
import { writeAuthorizationConfig } from './authorization-config.ts';

const webhook = {
  ...{ nodeId: 'node-1', clusterCaPem: 'PEM', port: 9092 },
  client: { certFile: '/client.crt', keyFile: '/client.key' },
};
const personOf = (digit: string): RecordedPerson => ({
  ...{ uid: `sha256:${digit.repeat(64)}`, user: `person-${digit}` },
  group: KUBERNETES_GROUPS.operator,
});

/** A disk that can be full: files can be read, renamed and removed, but not written. */
class FullFiles extends MemoryFiles {
  isFull = false;

  override async writeAtomic(...args: Parameters<MemoryFiles['writeAtomic']>): Promise<void> {
    if (this.isFull) throw new Error('ENOSPC: no space left on device');
    await super.writeAtomic(...args);
  }
}

async function listed(files: MemoryFiles): Promise<boolean[]> {
  const config = Buffer.from((await files.read(PATHS.authorization, 1e6)) ?? []).toString();
  return ['1', '2'].map((digit) => config.includes(personOf(digit).uid));
}

test('nobody stays in the list of people because the disk is full', async () => {
  const files = new FullFiles();
  const write = (...persons: readonly RecordedPerson[]) =>
    writeAuthorizationConfig(files, { ...webhook, persons });
  await write(personOf('1'), personOf('2'));
  expect(await listed(files)).toEqual([true, true]);
  files.isFull = true;
  // Nothing is written while nothing changes.
  await write(personOf('1'), personOf('2'));
  expect(await listed(files)).toEqual([true, true]);
  await expect(write(personOf('1'))).rejects.toThrow('ENOSPC');
  expect(await listed(files)).toEqual([false, false]);
  // As long as the disk is full, nobody gets into a list that could not be taken away.
  await expect(write(personOf('1'))).rejects.toThrow('ENOSPC');
  expect(await listed(files)).toEqual([false, false]);
  files.isFull = false;
  await write(personOf('1'));
  expect(await listed(files)).toEqual([true, false]);
});
