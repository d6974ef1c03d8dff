import { expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { ClientHttp2Session } from 'node:http2';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import type { MemberIdentity } from '../../internal/pki/index.ts';
import type { Upgrade } from '../../internal/rpc/index.ts';
import { createMemoryLogger } from '../../internal/testing/index.ts';
import { callRaw, openRawSession } from '../../internal/testing/network/raw-session.ts';
import { temporaryDirectory } from '../../internal/testing/host/temporary-directory.ts';
import { Curator } from '../curatorproto/gen/curator_pb.js';
import { createCuratorServer } from './curator-listener.ts';

/**
 * A curator server for tests. The first byte of a connection selects the node, and calls stay open until the
 * test releases them.
 */
async function start(answer: () => Promise<object>) {
  const directory = await temporaryDirectory();
  const upgrade: Upgrade<MemberIdentity> = async (socket) => {
    await once(socket, 'readable');
    const nodeId = String(socket.read(1));
    return { socket, peer: { kind: 'node', clusterId: 'c', nodeId, fingerprint: '', addresses: [] } };
  };
  const handlers = Object.fromEntries(Curator.methods.map(({ localName }) => [localName, answer]));
  const server = createCuratorServer({
    clock: new SystemClock(),
    upgrade,
    services: [{ service: Curator, handlers }],
    log: createMemoryLogger().log,
  });
  const path = join(directory.path, 'socket');
  await server.listenAt(path);
  const sessions: ClientHttp2Session[] = [];
  return {
    dial: async (name: string, options: { readonly firstCalls?: number } = {}) => {
      const session = await openRawSession(path, name, options);
      sessions.push(session);
      return session;
    },
    [Symbol.asyncDispose]: async () => {
      for (const each of sessions) each.destroy();
      await server[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

const ask = (session: ClientHttp2Session) => callRaw(session, Curator.method.checkHealth);

test('createCuratorServer() limits the connections of one key without affecting others', async () => {
  await using curator = await start(() => Promise.resolve({}));
  const other = await curator.dial('b');
  const first = await curator.dial('a');
  expect([await ask(other), await ask(first)]).toEqual(['OK', 'OK']);
  const gone = once(first, 'close');
  for (let i = 0; i < 32; i++) expect(await ask(await curator.dial('a'))).toBe('OK');
  await gone;
  expect(await ask(other)).toBe('OK');
});

test('createCuratorServer() limits the calls of one connection', async () => {
  const release = Promise.withResolvers<object>();
  let begun = 0;
  await using curator = await start(() => {
    begun++;
    return release.promise;
  });
  const session = await curator.dial('a', { firstCalls: 1_000 });
  const calls = Array.from({ length: 300 }, () => ask(session));
  await Promise.all(calls.slice(128));
  expect(begun).toBe(128);
  release.resolve({});
  expect(new Set(await Promise.all(calls.slice(0, 128)))).toEqual(new Set(['OK']));
});
