import { expect, test } from '@jest/globals';
import { createECDH } from 'node:crypto';
import { bindingsOf, transcriptHash } from './binding.ts';
import { encodeAlert, encodeEvidence, encodeHello, encodeReady } from './wire.ts';

/** The test vector of docs/atls.md. The Go program e2e/atls-peer computes the same values. */
const vector = {
  clientHello: '010100000026' + '0002' + '0002' + '0001' + '11'.repeat(32),
  serverHello: '010100000024' + '0001' + '0002' + '22'.repeat(32),
  transcript: '8af902d35c15fac4e8799775c9a893242fe6db4aca374956bb749d83ffe0d343',
  client:
    '7562823c07a6c6963509054a31466136f024c20994782bd7f11fb448c6d77f6a5ea4adc0a31c7ab682f6ff39736f484e7fb1a569515f3af1a8f8eeb1e9dd8c57',
  server:
    '72de4581af1927c340d0c9f267e1632b062825ba6333679330d92e8cd8b963d618b3cc048e1c04441c1776d67f666d7a232cf4178342217ac4c32c98b62b7792',
  session:
    '9c1eb1f77424b89cd48ef80960a33012b70cf34efba814142b1236783c7ef9f74008121f83226a1a1417941f571e3c3640180f6308824574774d13575f6b4650',
};

test('bindingsOf() computes the test vector of docs/atls.md', () => {
  const clientHello = encodeHello({ accepts: [2, 1], nonce: Buffer.alloc(32, 0x11) });
  const serverHello = encodeHello({ accepts: [2], nonce: Buffer.alloc(32, 0x22) });
  const transcript = transcriptHash(clientHello, serverHello);
  const { client, server, session } = bindingsOf(
    {
      context: Buffer.from('00112233445566778899aabbccddeeff/joinservice'),
      serverSpki: spkiOfScalar(1),
      clientSpki: spkiOfScalar(2),
      exportKey: (context) => {
        expect(hex(context)).toBe(vector.transcript);
        return Buffer.alloc(32, 0x33);
      },
    },
    transcript,
  );
  expect({
    clientHello: hex(clientHello),
    serverHello: hex(serverHello),
    transcript: hex(transcript),
    client: hex(client),
    server: hex(server),
    session: hex(session),
  }).toEqual(vector);
});

test('encodeHello() encodes the frames of docs/atls.md', () => {
  expect(hex(encodeEvidence({ format: 2, document: Buffer.from('c0ffee', 'hex') }))).toBe(
    '0201000000050002c0ffee',
  );
  expect(hex(encodeReady())).toBe('030100000000');
  expect(hex(encodeAlert('evidenceRejected'))).toBe('0f010000000104');
});

test('bindingsOf() returns other bindings when any part of the session changes', () => {
  const session = {
    context: Buffer.from('context'),
    serverSpki: Buffer.from('server'),
    clientSpki: Buffer.from('client'),
    exportKey: () => Buffer.alloc(32, 1),
  };
  const transcript = Buffer.alloc(32, 2);
  const other = Buffer.from('other');
  const all = [
    bindingsOf(session, transcript),
    bindingsOf({ ...session, context: other }, transcript),
    bindingsOf({ ...session, serverSpki: other }, transcript),
    bindingsOf({ ...session, clientSpki: other }, transcript),
    bindingsOf({ ...session, serverSpki: session.clientSpki, clientSpki: session.serverSpki }, transcript),
    bindingsOf({ ...session, exportKey: () => Buffer.alloc(32, 3) }, transcript),
    bindingsOf(session, Buffer.alloc(32, 4)),
  ].flatMap(({ client, server, session }) => [hex(client), hex(server), hex(session)]);
  expect(new Set(all).size).toBe(21);
});

/** A P-256 SPKI that anybody can compute: the public key of a small private key. */
function spkiOfScalar(scalar: number): Uint8Array {
  const ecdh = createECDH('prime256v1');
  ecdh.setPrivateKey(Buffer.from([scalar]).toString('hex').padStart(64, '0'), 'hex');
  const prefix = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex');
  return Buffer.concat([prefix, ecdh.getPublicKey()]);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
