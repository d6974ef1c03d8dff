import { describe, expect, test } from '@jest/globals';
import { parseLocalNodeRecord, type LocalNodeRecord } from './node-record.ts';

const record: LocalNodeRecord = {
  version: 1,
  name: 'n1',
  address: '198.18.1.11',
  layers: ['/l', '/r'],
  binds: [],
  procFiles: { swaps: 'x' },
  diskBytes: 1,
};
const parse = (value: unknown) => parseLocalNodeRecord('/p', new TextEncoder().encode(JSON.stringify(value)));

describe('parseLocalNodeRecord()', () => {
  test('reads the output of the writer', () => {
    expect(parse(record)).toEqual(record);
  });

  test('reads the record of a virtual machine', () => {
    const machine: LocalNodeRecord = { ...record, layers: [], vm: { memoryMib: 4096 } };
    expect(parse(machine)).toEqual(machine);
  });

  test.each([
    { name: 'a newer version', value: { ...record, version: 2 } },
    { name: 'an unknown field', value: { ...record, more: true } },
    { name: 'a record without layers', value: { ...record, layers: [] } },
    { name: 'a virtual machine with layers', value: { ...record, vm: { memoryMib: 4096 } } },
    { name: 'a disk of zero bytes', value: { ...record, diskBytes: 0 } },
    { name: 'a value that is not an object', value: null },
  ])('parseLocalNodeRecord() refuses $name', ({ value }) => {
    expect(() => parse(value)).toThrow(expect.objectContaining({ code: 'localmachines-invalid-record' }));
  });

  test('refuses a record that is cut off', () => {
    expect(() => parseLocalNodeRecord('/p', new TextEncoder().encode('{"version":1,'))).toThrow(
      expect.objectContaining({ code: 'localmachines-invalid-record' }),
    );
  });
});
