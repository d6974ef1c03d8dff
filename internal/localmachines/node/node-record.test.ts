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

describe('parseNodeRecord()', () => {
  test('reads what was written', () => {
    expect(parse(record)).toEqual(record);
  });

  test.each([
    { name: 'a newer version', value: { ...record, version: 2 } },
    { name: 'an unknown field', value: { ...record, more: true } },
    { name: 'no layers', value: { ...record, layers: [] } },
    { name: 'a disk of nothing', value: { ...record, diskBytes: 0 } },
    { name: 'something else', value: null },
  ])('refuses $name', ({ value }) => {
    expect(() => parse(value)).toThrow(expect.objectContaining({ code: 'localmachines-invalid-record' }));
  });

  test('refuses a cut file', () => {
    expect(() => parseLocalNodeRecord('/p', new TextEncoder().encode('{"version":1,'))).toThrow(
      expect.objectContaining({ code: 'localmachines-invalid-record' }),
    );
  });
});
