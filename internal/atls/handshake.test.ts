import { describe, expect, test } from '@jest/globals';
import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import type { Role, Session } from './binding.ts';
import { AtlsError } from './errors.ts';
import {
  handshake,
  rejectUnexpectedBytes,
  type HandshakeOptions,
  type HandshakeStep,
  type HandshakeSteps,
} from './handshake.ts';
import { encodeAlert, encodeEvidence, encodeHello, encodeReady, FORMAT_NONE, FRAME } from './wire.ts';

const TPM = 2;
const SNP = 3;
const NAME_OF_TYPE = new Map<number | undefined, string>(
  Object.entries(FRAME).map(([name, type]) => [type, name.toUpperCase()]),
);

describe('aTLS handshake between two honest ends', () => {
  test('validates the client before the server issues evidence, and sends READY last', () => {
    const log = converse(optionsOf('client'), optionsOf('server'));
    expect(log).toEqual([
      'client sends HELLO',
      'server sends HELLO',
      'client issues 2',
      'client sends EVIDENCE',
      'server validates 2',
      'server issues 2',
      'server sends EVIDENCE READY',
      'client validates 2',
      'client sends READY',
      'client is done',
      'server is done',
    ]);
  });

  test('exchanges evidence in one direction in the one-way modes', () => {
    const client = optionsOf('client', { shows: [FORMAT_NONE] });
    const server = optionsOf('server', { accepts: [FORMAT_NONE] });
    expect(converse(client, server)).toEqual([
      'client sends HELLO',
      'server sends HELLO',
      'client sends EVIDENCE',
      'server issues 2',
      'server sends EVIDENCE READY',
      'client validates 2',
      'client sends READY',
      'client is done',
      'server is done',
    ]);
  });

  test('chooses the format that the verifier prefers', () => {
    const client = optionsOf('client', { shows: [TPM, SNP], accepts: [TPM] });
    const server = optionsOf('server', { shows: [TPM], accepts: [SNP, TPM] });
    const log = converse(client, server);
    expect(log).toContain('client issues 3');
    expect(log).toContain('server issues 2');
  });
});

describe('aTLS handshake between ends with different configurations or sessions', () => {
  const cases: readonly {
    name: string;
    client: Partial<HandshakeOptions>;
    server: Partial<HandshakeOptions>;
    want: string;
  }[] = [
    {
      name: 'two ends without a common evidence format',
      client: { shows: [SNP] },
      server: { accepts: [TPM] },
      want: 'client: atls-no-common-format',
    },
    {
      name: 'a client without evidence and a server that requires evidence',
      client: { shows: [FORMAT_NONE] },
      server: {},
      want: 'client: atls-no-common-format',
    },
    {
      name: 'a client with evidence and a server that requires none',
      client: {},
      server: { accepts: [FORMAT_NONE] },
      want: 'client: atls-no-common-format',
    },
    {
      name: 'a server without evidence and a client that requires evidence',
      client: {},
      server: { shows: [FORMAT_NONE] },
      want: 'server: atls-no-common-format',
    },
    {
      name: 'two ends with different contexts',
      client: { session: sessionOf({ context: 'cluster-b/joinservice' }) },
      server: {},
      want: 'server: atls-evidence-rejected',
    },
    {
      name: 'two ends of different TLS sessions, because a relay is between them',
      client: { session: sessionOf({ master: 'mallory' }) },
      server: {},
      want: 'server: atls-evidence-rejected',
    },
    {
      name: 'two ends that see different server keys, because a relay is between them',
      client: { session: sessionOf({ serverKey: 'mallory' }) },
      server: {},
      want: 'server: atls-evidence-rejected',
    },
    {
      name: 'two ends that see different client keys, because a relay is between them',
      client: { session: sessionOf({ clientKey: 'mallory' }) },
      server: {},
      want: 'server: atls-evidence-rejected',
    },
    {
      name: 'two ends with the same nonce',
      client: { nonce: nonceOf('one') },
      server: { nonce: nonceOf('one') },
      want: 'server: atls-reflection',
    },
  ];
  test.each(cases)('the handshake fails between $name', ({ client, server, want }) => {
    expect(converse(optionsOf('client', client), optionsOf('server', server)).at(-1)).toBe(want);
  });

  test('a client refuses evidence that is bound to another session', () => {
    const client = optionsOf('client', { shows: [FORMAT_NONE], session: sessionOf({ master: 'mallory' }) });
    const server = optionsOf('server', { accepts: [FORMAT_NONE] });
    expect(converse(client, server)).toContain('client: atls-evidence-rejected');
  });
});

describe('aTLS server that receives malformed input', () => {
  const hello = encodeHello({ accepts: [TPM], nonce: nonceOf('client') });
  const header = (type: number, version: number, length: number): Uint8Array => {
    const bytes = Buffer.alloc(6);
    bytes.writeUInt8(type, 0);
    bytes.writeUInt8(version, 1);
    bytes.writeUInt32BE(length, 2);
    return bytes;
  };
  const frame = (type: number, body: Uint8Array): Uint8Array =>
    Buffer.concat([header(type, 1, body.length), body]);
  const helloBody = (flags: number, count: number, formats: readonly number[], nonceBytes = 32): Uint8Array =>
    frame(
      1,
      Buffer.concat([
        Buffer.from([flags, count, ...formats.flatMap((f) => [0, f])]),
        Buffer.alloc(nonceBytes, 9),
      ]),
    );
  const cases: readonly { name: string; given: readonly Uint8Array[]; want: string }[] = [
    { name: 'random bytes', given: [Buffer.from('deadbeefdeadbeef', 'hex')], want: 'atls-frame-version' },
    {
      name: 'an HTTP/2 preface',
      given: [Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
      want: 'atls-frame-version',
    },
    { name: 'a HELLO of frame version 0', given: [header(1, 0, 36)], want: 'atls-frame-version' },
    { name: 'a HELLO of frame version 2', given: [header(1, 2, 36)], want: 'atls-frame-version' },
    { name: 'a frame of type 0', given: [header(0, 1, 36)], want: 'atls-frame-type' },
    { name: 'a frame of type 4', given: [header(4, 1, 0)], want: 'atls-frame-type' },
    { name: 'a frame of type 255', given: [header(255, 1, 0)], want: 'atls-frame-type' },
    { name: 'a HELLO of 4 GiB', given: [header(1, 1, 0xffff_ffff)], want: 'atls-frame-too-large' },
    { name: 'a HELLO of 257 bytes', given: [header(1, 1, 257)], want: 'atls-frame-too-large' },
    { name: 'EVIDENCE before HELLO', given: [header(2, 1, 100)], want: 'atls-frame-order' },
    { name: 'READY before HELLO', given: [encodeReady()], want: 'atls-frame-order' },
    { name: 'a second HELLO in place of EVIDENCE', given: [hello, hello], want: 'atls-frame-order' },
    { name: 'READY in place of EVIDENCE', given: [hello, encodeReady()], want: 'atls-frame-order' },
    { name: 'EVIDENCE of 64 KiB + 1', given: [hello, header(2, 1, 65_537)], want: 'atls-frame-too-large' },
    { name: 'EVIDENCE of 4 GiB', given: [hello, header(2, 1, 0xffff_ffff)], want: 'atls-frame-too-large' },
    {
      name: 'EVIDENCE without a format',
      given: [hello, frame(2, new Uint8Array(0))],
      want: 'atls-frame-malformed',
    },
    {
      name: 'EVIDENCE with half a format number',
      given: [hello, frame(2, new Uint8Array(1))],
      want: 'atls-frame-malformed',
    },
    {
      name: 'EVIDENCE in a format that the server does not accept',
      given: [hello, encodeEvidence({ format: SNP, document: new Uint8Array(64) })],
      want: 'atls-evidence-format',
    },
    {
      name: 'EVIDENCE in the format "none"',
      given: [hello, encodeEvidence({ format: FORMAT_NONE, document: new Uint8Array(0) })],
      want: 'atls-evidence-format',
    },
    {
      name: 'EVIDENCE with an empty document',
      given: [hello, encodeEvidence({ format: TPM, document: new Uint8Array(0) })],
      want: 'atls-evidence-rejected',
    },
    { name: 'READY with a body', given: [hello, header(3, 1, 1)], want: 'atls-frame-too-large' },
    {
      name: 'a HELLO with a reserved flag set',
      given: [helloBody(1, 1, [TPM])],
      want: 'atls-frame-malformed',
    },
    { name: 'a HELLO without formats', given: [helloBody(0, 0, [])], want: 'atls-frame-malformed' },
    {
      name: 'a HELLO with 17 formats',
      given: [
        helloBody(
          0,
          17,
          Array.from({ length: 17 }, (_, i) => i + 1),
        ),
      ],
      want: 'atls-frame-malformed',
    },
    {
      name: 'a HELLO with a duplicate format',
      given: [helloBody(0, 2, [TPM, TPM])],
      want: 'atls-frame-malformed',
    },
    {
      name: 'a HELLO that lists "none" together with another format',
      given: [helloBody(0, 2, [TPM, 0])],
      want: 'atls-frame-malformed',
    },
    {
      name: 'a HELLO with more formats than its count',
      given: [helloBody(0, 1, [TPM, SNP])],
      want: 'atls-frame-malformed',
    },
    { name: 'a HELLO with a short nonce', given: [helloBody(0, 1, [TPM], 31)], want: 'atls-frame-malformed' },
    { name: 'a HELLO with a long nonce', given: [helloBody(0, 1, [TPM], 33)], want: 'atls-frame-malformed' },
    { name: 'an empty HELLO', given: [frame(1, new Uint8Array(0))], want: 'atls-frame-malformed' },
    { name: 'an empty alert', given: [frame(15, new Uint8Array(0))], want: 'atls-frame-malformed' },
    { name: 'an alert of two bytes', given: [header(15, 1, 2)], want: 'atls-frame-too-large' },
    {
      name: 'an alert of an unknown code',
      given: [frame(15, Uint8Array.of(99))],
      want: 'atls-alert-protocol',
    },
    { name: 'an alert in place of HELLO', given: [encodeAlert('busy')], want: 'atls-alert-busy' },
    {
      name: 'an alert in place of EVIDENCE',
      given: [hello, encodeAlert('internal')],
      want: 'atls-alert-internal',
    },
    { name: 'no bytes', given: [], want: 'waits for 6 bytes' },
    { name: 'half a header', given: [hello.subarray(0, 3)], want: 'waits for 6 bytes' },
    { name: 'half a HELLO', given: [hello.subarray(0, 20)], want: 'waits for 36 bytes' },
  ];
  test.each(cases)('server receives $name: $want', ({ given, want }) => {
    expect(feed(handshake(optionsOf('server')), Buffer.concat(given))).toBe(want);
  });
});

describe('bytes that arrive while this end issues or validates evidence', () => {
  const cases: readonly { name: string; given: Uint8Array; want: string }[] = [
    {
      name: 'a second HELLO',
      given: encodeHello({ accepts: [TPM], nonce: nonceOf('x') }),
      want: 'atls-early-data',
    },
    { name: 'READY before evidence is complete', given: encodeReady(), want: 'atls-early-data' },
    { name: 'an HTTP/2 preface', given: Buffer.from('PRI * HTTP/2.0\r\n'), want: 'atls-early-data' },
    { name: 'an alert', given: encodeAlert('timeout'), want: 'atls-alert-timeout' },
    {
      name: 'an alert of another version',
      given: Buffer.from([15, 2, 0, 0, 0, 1, 1]),
      want: 'atls-frame-version',
    },
    {
      name: 'an alert that is too large',
      given: Buffer.from([15, 1, 0, 0, 1, 0]),
      want: 'atls-frame-too-large',
    },
  ];
  test.each(cases)('the handshake receives $name: $want', ({ given, want }) => {
    expect(feed(rejectUnexpectedBytes(), given)).toBe(want);
  });
});

describe('mutated messages', () => {
  test('a server refuses the messages of a client if any bit is flipped', () => {
    const sent = Buffer.concat(run(optionsOf('client'), optionsOf('server')).sent.client);
    expect(feed(handshake(optionsOf('server')), sent)).toBe('done');
    expect(acceptedFlips(sent, () => handshake(optionsOf('server')))).toEqual([]);
  });

  test('a client refuses the messages of a server if any bit is flipped', () => {
    const sent = Buffer.concat(run(optionsOf('client'), optionsOf('server')).sent.server);
    expect(feed(handshake(optionsOf('client')), sent)).toBe('done');
    expect(acceptedFlips(sent, () => handshake(optionsOf('client')))).toEqual([]);
  });

  test('arbitrary bytes are refused with an error code, or the handshake waits for more', () => {
    const frames = fc.oneof(
      fc.uint8Array({ maxLength: 80 }),
      fc
        .tuple(fc.constantFrom(1, 2, 3, 15), fc.uint8Array({ maxLength: 80 }))
        .map(([type, body]) => Buffer.concat([Buffer.from([type, 1, 0, 0, 0, body.length]), body])),
      fc.constant(encodeHello({ accepts: [TPM], nonce: nonceOf('client') })),
    );
    const script = fc.array(frames, { maxLength: 5 });
    fc.assert(
      fc.property(script, fc.constantFrom<Role>('client', 'server'), (chunks, role) => {
        expect(feed(handshake(optionsOf(role)), Buffer.concat(chunks))).toMatch(/^(atls-|waits for )/);
      }),
      { numRuns: 500 },
    );
  });
});

function acceptedFlips(bytes: Buffer, start: () => HandshakeSteps): number[] {
  const accepted: number[] = [];
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const mutated = Buffer.from(bytes);
    mutated[bit >> 3]! ^= 1 << (bit & 7);
    if (feed(start(), mutated) === 'done') accepted.push(bit);
  }
  expect(bytes.length * 8).toBeGreaterThan(400);
  return accepted;
}

function nonceOf(name: string): Uint8Array {
  return createHash('sha256').update(`nonce ${name}`).digest();
}

function sessionOf(
  of: { context?: string; master?: string; serverKey?: string; clientKey?: string } = {},
): Session {
  return {
    context: Buffer.from(of.context ?? 'cluster-a/joinservice'),
    serverSpki: Buffer.from(of.serverKey ?? 'server key'),
    clientSpki: Buffer.from(of.clientKey ?? 'client key'),
    exportKey: (context) =>
      createHmac('sha256', of.master ?? 'master secret')
        .update(context)
        .digest(),
  };
}

function optionsOf(role: Role, changes: Partial<HandshakeOptions> = {}): HandshakeOptions {
  return { role, session: sessionOf(), nonce: nonceOf(role), shows: [TPM], accepts: [TPM], ...changes };
}

const machineKey = 'what makes a machine the machine';

function evidenceFor(binding: Uint8Array): Uint8Array {
  return createHmac('sha256', machineKey).update(binding).digest();
}

/** Performs a step that does not involve the peer. Returns undefined for a step that reads from the peer. */
function work(step: HandshakeStep): Uint8Array | undefined {
  switch (step.kind) {
    case 'issue':
      return evidenceFor(step.binding);
    case 'validate':
      if (Buffer.compare(step.evidence.document, evidenceFor(step.binding)) !== 0) {
        throw new AtlsError('atls-evidence-rejected', 'judging');
      }
      return new Uint8Array(0);
    case 'send':
      return new Uint8Array(0);
    case 'read':
      return undefined;
  }
}

/** Runs one end with fixed input bytes, and returns its outcome. */
function feed(steps: HandshakeSteps, incoming: Uint8Array): string {
  try {
    let at = 0;
    let next = steps.next();
    while (next.done !== true) {
      const step = next.value;
      if (step.kind === 'read') {
        if (at + step.sizeBytes > incoming.length) return `waits for ${step.sizeBytes} bytes`;
        next = steps.next(incoming.subarray(at, (at += step.sizeBytes)));
      } else {
        next = steps.next(work(step)!);
      }
    }
    return 'done';
  } catch (error) {
    if (error instanceof AtlsError) return error.code;
    throw error;
  }
}

interface Conversation {
  readonly log: string[];
  readonly sent: Record<Role, Uint8Array[]>;
}

/** Runs two ends against each other, alternately and each as far as it gets, until one refuses or both are done. */
function run(client: HandshakeOptions, server: HandshakeOptions): Conversation {
  const log: string[] = [];
  const sent: Record<Role, Uint8Array[]> = { client: [], server: [] };
  const taken: Record<Role, number> = { client: 0, server: 0 };
  const ends = [client, server].map(({ role }, index) => {
    const steps = handshake(index === 0 ? client : server);
    return { role, steps, next: steps.next() };
  });
  const answer = (role: Role, step: HandshakeStep): Uint8Array | undefined => {
    if (step.kind === 'send') {
      sent[role].push(step.bytes);
      log.push(`${role} sends ${frameNames(step.bytes)}`);
    } else if (step.kind === 'issue') log.push(`${role} issues ${step.format}`);
    else if (step.kind === 'validate') log.push(`${role} validates ${step.evidence.format}`);
    else {
      const inbox = Buffer.concat(sent[role === 'client' ? 'server' : 'client']).subarray(taken[role]);
      if (inbox.length < step.sizeBytes) return undefined;
      taken[role] += step.sizeBytes;
      return inbox.subarray(0, step.sizeBytes);
    }
    return work(step);
  };
  for (let round = 0; round < 8; round++) {
    const end = ends[round % 2]!;
    try {
      while (end.next.done !== true) {
        const bytes = answer(end.role, end.next.value);
        if (bytes === undefined) break;
        end.next = end.steps.next(bytes);
        if (end.next.done === true) log.push(`${end.role} is done`);
      }
    } catch (error) {
      if (!(error instanceof AtlsError)) throw error;
      log.push(`${end.role}: ${error.code}`);
      break;
    }
  }
  return { log, sent };
}

function converse(client: HandshakeOptions, server: HandshakeOptions): string[] {
  return run(client, server).log;
}

function frameNames(bytes: Uint8Array): string {
  const names: string[] = [];
  const view = Buffer.from(bytes);
  for (let at = 0; at < view.length; at += 6 + view.readUInt32BE(at + 2))
    names.push(NAME_OF_TYPE.get(view[at]) ?? '?');
  return names.join(' ');
}
