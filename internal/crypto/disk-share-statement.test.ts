import { describe, expect, test } from '@jest/globals';
import {
  diskShareAnswer,
  diskShareEvidenceBinding,
  encodeDiskShareStatement,
  ticketEvidenceBinding,
  type DiskShareStatement,
} from './index.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const STATEMENT: DiskShareStatement = {
  clusterId: 'c0ffee',
  uuid: '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f',
  enrolment: new Uint8Array(40).fill(1),
  session: new Uint8Array(64).fill(2),
  timeMs: 5,
};
const ENVELOPE = {
  challenge: new Uint8Array(3).fill(3),
  nonce: new Uint8Array(3).fill(4),
  ciphertext: new Uint8Array(3).fill(5),
};

describe('encodeDiskShareStatement()', () => {
  test('gives other bytes for each other field', () => {
    const others: Partial<DiskShareStatement>[] = [
      {},
      { clusterId: 'decade' },
      { uuid: '1f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f' },
      { enrolment: new Uint8Array(41).fill(1) },
      { session: new Uint8Array(64).fill(9) },
      { timeMs: 6 },
    ];
    const encoded = others.map((other) => hex(encodeDiskShareStatement({ ...STATEMENT, ...other })));
    expect(new Set(encoded).size).toBe(others.length);
  });

  test.each([{ session: new Uint8Array(63) }, { timeMs: -1 }, { timeMs: 0.5 }, { timeMs: Number.NaN }])(
    'refuses a malformed field: %o',
    (other) => {
      expect(() => encodeDiskShareStatement({ ...STATEMENT, ...other })).toThrow();
    },
  );
});

test('diskShareEvidenceBinding() never is the binding of a ticket', () => {
  const statement = encodeDiskShareStatement(STATEMENT);
  expect(diskShareEvidenceBinding(statement)).toHaveLength(64);
  expect(hex(diskShareEvidenceBinding(statement))).not.toBe(hex(ticketEvidenceBinding(statement)));
});

test('diskShareAnswer() covers the statement and each part of the answer, and cannot begin a certificate', () => {
  const statement = encodeDiskShareStatement(STATEMENT);
  const answers = [
    diskShareAnswer(statement, ENVELOPE),
    diskShareAnswer(encodeDiskShareStatement({ ...STATEMENT, timeMs: 6 }), ENVELOPE),
    ...(['challenge', 'nonce', 'ciphertext'] as const).map((part) =>
      diskShareAnswer(statement, { ...ENVELOPE, [part]: new Uint8Array(3) }),
    ),
  ];
  expect(new Set(answers.map(hex)).size).toBe(answers.length);
  const DER_SEQUENCE = 0x30;
  expect(answers[0]?.[0]).not.toBe(DER_SEQUENCE);
});
