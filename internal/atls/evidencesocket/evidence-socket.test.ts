import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '../../clock/index.ts';
import { DiskFiles } from '../../file/index.ts';
import { createLogger, formatJsonRecord } from '../../logging/index.ts';
import { codeOf } from '../../testing/atls/ends.ts';
import { FakeIssuer, FakeValidator } from '../../testing/atls/hmac-evidence.ts';
import { bindingsOf, type Bindings } from '../binding.ts';
import { RotatingKeys } from '../tls-keys.ts';
import { REJECT_ALL_RULES } from '../trust.ts';
import { atlsClientUpgrade, atlsServerUpgrade } from '../upgrade.ts';
import { encodeRequest, MAX_RESPONSE_BYTES, parseResponse, parseRequest } from './messages.ts';
import { JOIN_CONTEXT } from '../binding.ts';
import { SocketIssuer } from './socket-issuer.ts';
import { createEvidenceSocketServer, type EvidenceSocketServer } from './socket-server.ts';

const never = new AbortController().signal;
const clock = new SystemClock();
const key = Buffer.alloc(32, 7);

let directory: string;
let path: string;
let machine: FakeIssuer;
let server: EvidenceSocketServer;
const logged: string[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'evidence-'));
  path = join(directory, 'evidence.sock');
  machine = new FakeIssuer({ variant: 'tpm', key });
  logged.length = 0;
  server = await serve(JOIN_CONTEXT);
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

function serve(context: string): Promise<EvidenceSocketServer> {
  const log = createLogger({
    path: 'evidence',
    nowMs: () => 0,
    sink: (record) => void logged.push(formatJsonRecord(record)),
  });
  return createEvidenceSocketServer({
    path,
    context,
    issuers: [machine],
    files: new DiskFiles(),
    clock,
    log,
  });
}

function bindingsFor(context: string): Bindings {
  const session = {
    context: Buffer.from(context),
    serverSpki: Buffer.from('server'),
    clientSpki: Buffer.from('client'),
    exportKey: () => randomBytes(32),
  };
  return bindingsOf(session, randomBytes(32));
}

/**
 * Sends these bytes, closes the writing side and returns the error code of the response, or that it carries evidence.
 */
async function ask(bytes: Uint8Array): Promise<string> {
  const socket = connect({ path });
  socket.on('error', () => undefined).end(bytes);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => void chunks.push(chunk));
  await new Promise((resolve) => socket.once('close', resolve)); // a connection reset also ends the response
  return codeOf(Promise.try(() => parseResponse(Buffer.concat(chunks))));
}

describe('the evidence socket', () => {
  test('gives evidence for the session of another process', async () => {
    const { server: binding, statements } = bindingsFor(JOIN_CONTEXT);
    const issuer = new SocketIssuer({ path, variant: 'tpm' });
    const evidence = await issuer.issueForSession(statements.server, never);
    const validator = new FakeValidator({ variant: 'tpm', key });
    const context = { ...REJECT_ALL_RULES, nowMs: 0 };
    await expect(validator.validate(evidence, binding, context)).resolves.toMatchObject({ accepted: true });
  });

  test('gives a server the evidence for a complete attested connection', async () => {
    const issuer = new SocketIssuer({ path, variant: 'tpm' });
    const common = { context: JOIN_CONTEXT, clock } as const;
    const accepts = [new FakeValidator({ variant: 'tpm', key })] as const;
    const end = { trust: 'mutual', accepts, rules: () => REJECT_ALL_RULES } as const;
    const upgrades = {
      server: atlsServerUpgrade({
        ...common,
        keys: new RotatingKeys({ clock }),
        trust: { ...end, shows: [issuer] },
      }),
      client: atlsClientUpgrade({
        ...common,
        keys: new RotatingKeys({ clock }),
        trust: { ...end, shows: [new FakeIssuer({ variant: 'tpm', key, name: 'joiner' })] },
      }),
    };
    const listener = createServer().listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const tcp = connect((listener.address() as AddressInfo).port, '127.0.0.1');
    const [accepted] = (await once(listener, 'connection')) as [Socket];
    const [atServer, atClient] = await Promise.all([
      upgrades.server(accepted, never),
      upgrades.client(tcp, never),
    ]);
    expect(atServer.peer.session).toEqual(atClient.peer.session);
    expect(machine.issued).toBe(1);
    atServer.socket.destroy();
    atClient.socket.destroy();
    listener.close();
  });

  test.each([
    { name: 'for a client', statement: () => bindingsFor(JOIN_CONTEXT).statements.client },
    {
      name: 'for the statement of the server of another service',
      statement: () => bindingsFor('cluster/init/v1').statements.server,
    },
    {
      name: 'for a context with one character more',
      statement: () => bindingsFor(`${JOIN_CONTEXT}x`).statements.server,
    },
    {
      name: 'for a statement with trailing bytes',
      statement: () => Buffer.concat([bindingsFor(JOIN_CONTEXT).statements.server, Buffer.of(0)]),
    },
    {
      name: 'for a truncated statement',
      statement: () => bindingsFor(JOIN_CONTEXT).statements.server.subarray(0, -1),
    },
    { name: 'for 64 bytes that are not a statement', statement: () => randomBytes(64) },
  ])('refuses evidence $name, without using the TPM', async ({ statement }) => {
    const issuer = new SocketIssuer({ path, variant: 'tpm' });
    expect(await codeOf(issuer.issueForSession(statement(), never))).toBe('evidence-socket-refused');
    expect(machine.issued).toBe(0);
    expect(logged.join()).toContain('evidence-socket-refused');
  });

  test('refuses an attestation variant that the machine does not have', async () => {
    const issuer = new SocketIssuer({ path, variant: 'sev-snp' });
    const { statements } = bindingsFor(JOIN_CONTEXT);
    expect(await codeOf(issuer.issueForSession(statements.server, never))).toBe('evidence-socket-refused');
  });

  test.each([
    { name: 'an empty request', bytes: Buffer.alloc(0) },
    {
      name: 'a request without the statement to which the evidence would be bound',
      bytes: encodeRequest('tpm', new Uint8Array()),
    },
    { name: 'a request with a wrong magic', bytes: Buffer.concat([Buffer.from('CEVX'), Buffer.alloc(100)]) },
    {
      name: 'a request one byte above the size limit',
      bytes: Buffer.concat([encodeRequest('tpm', randomBytes(256)), Buffer.alloc(1)]),
    },
    { name: 'a request of 1 MiB', bytes: Buffer.alloc(1 << 20) },
  ])('refuses $name', async ({ bytes }) => {
    expect(['evidence-socket-refused', 'evidence-socket-malformed']).toContain(await ask(bytes));
    expect(machine.issued).toBe(0);
  });

  test('responds "busy" when the TPM fails, and writes the reason only to the log', async () => {
    machine.issue = () => Promise.reject(new Error('the chip is on fire'));
    const issuer = new SocketIssuer({ path, variant: 'tpm' });
    const { statements } = bindingsFor(JOIN_CONTEXT);
    expect(await codeOf(issuer.issueForSession(statements.server, never))).toBe('evidence-socket-busy');
    expect(logged.join()).toContain('on fire');
  });

  test('replaces the socket that a killed agent left behind', async () => {
    await server[Symbol.asyncDispose]();
    await writeFile(path, '');
    server = await serve(JOIN_CONTEXT);
    const { statements } = bindingsFor(JOIN_CONTEXT);
    const issuer = new SocketIssuer({ path, variant: 'tpm' });
    await expect(issuer.issueForSession(statements.server, never)).resolves.toBeDefined();
  });
});

describe('SocketIssuer', () => {
  test('reports an unavailable socket with its path', async () => {
    const issuer = new SocketIssuer({ path: join(directory, 'nobody.sock'), variant: 'tpm' });
    const { statements } = bindingsFor(JOIN_CONTEXT);
    expect(await codeOf(issuer.issueForSession(statements.server, never))).toBe(
      'evidence-socket-unavailable',
    );
  });

  test('stops when its signal fires while the agent does not respond', async () => {
    await server[Symbol.asyncDispose]();
    const connections: Socket[] = [];
    const silent = createServer((socket) => void connections.push(socket)).listen({ path });
    await once(silent, 'listening');
    const caller = new AbortController();
    const issuer = new SocketIssuer({ path, variant: 'tpm' });
    const pending = issuer.issueForSession(bindingsFor(JOIN_CONTEXT).statements.server, caller.signal);
    await once(silent, 'connection');
    caller.abort(new Error('enough'));
    await expect(pending).rejects.toThrow('enough');
    connections.forEach((socket) => socket.destroy());
    silent.close();
  });

  test.each([
    { name: 'without a status', bytes: 'CEVA' },
    { name: 'with an unknown status', bytes: 'CEVA\x07' },
    { name: 'with status "given" but without evidence', bytes: 'CEVA\x00' },
    { name: 'with status "refused" but with evidence', bytes: 'CEVA\x01evidence' },
    { name: 'longer than the size limit', bytes: `CEVA\x00${'x'.repeat(MAX_RESPONSE_BYTES)}` },
  ])('refuses a response $name', async ({ bytes }) => {
    expect(await codeOf(Promise.try(() => parseResponse(Buffer.from(bytes, 'latin1'))))).toBe(
      'evidence-socket-malformed',
    );
  });
});

test('parseRequest() throws only its coded error for arbitrary bytes', () => {
  for (let length = 0; length < 300; length++) {
    const bytes = Buffer.concat([Buffer.from('CEVQ'), randomBytes(length)]);
    try {
      parseRequest(bytes);
    } catch (error) {
      expect(error).toMatchObject({ code: 'evidence-socket-malformed' });
    }
  }
});
