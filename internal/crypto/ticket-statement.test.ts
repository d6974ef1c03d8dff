import { describe, expect, test } from '@jest/globals';
import {
  encodeTicketStatement,
  ticketEvidenceBinding,
  statementId,
  type TicketStatement,
} from './ticket-statement.ts';

const statement: TicketStatement = {
  clusterId: 'c',
  nodePubKeyDer: Buffer.from('key'),
  address: '192.0.2.1',
  roles: ['a', 'b'],
  kubeletClientCsr: Buffer.from('one'),
  kubeletServingCsr: Buffer.from('two'),
  sealingPublicKey: Buffer.from('recipient'),
  session: new Uint8Array(64).fill(7),
  timeMs: 1,
};

describe('encodeTicketStatement()', () => {
  test('returns other bytes when any field changes, also when bytes move from one field to the next', () => {
    const changes: readonly Partial<TicketStatement>[] = [
      {},
      { clusterId: 'd' },
      { clusterId: 'ck', nodePubKeyDer: Buffer.from('ey') },
      { address: '192.0.2.2' },
      { roles: ['a'] },
      { roles: ['ab'] },
      { roles: [], kubeletClientCsr: Buffer.from('abone') },
      { kubeletClientCsr: Buffer.from('onet'), kubeletServingCsr: Buffer.from('wo') },
      { kubeletServingCsr: Buffer.from('twor'), sealingPublicKey: Buffer.from('ecipient') },
      { session: new Uint8Array(64).fill(8) },
      { timeMs: 2 },
    ];
    const ids = changes.map((change) => statementId(encodeTicketStatement({ ...statement, ...change })));
    expect(new Set(ids).size).toBe(changes.length);
  });

  test.each([
    { name: 'a session value of the wrong length', change: { session: new Uint8Array(63) } },
    { name: 'a negative time', change: { timeMs: -1 } },
    { name: 'a time that is not an integer', change: { timeMs: 1.5 } },
  ])('refuses $name', ({ change }) => {
    expect(() => encodeTicketStatement({ ...statement, ...change })).toThrow(RangeError);
  });
});

test('ticketEvidenceBinding() covers the whole statement in 64 bytes', () => {
  const one = ticketEvidenceBinding(encodeTicketStatement(statement));
  const other = ticketEvidenceBinding(encodeTicketStatement({ ...statement, timeMs: 2 }));
  expect(one).toHaveLength(64);
  expect(Buffer.compare(one, other)).not.toBe(0);
});
