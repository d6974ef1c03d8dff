import { afterEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { ClientHttp2Session } from 'node:http2';
import { join } from 'node:path';
import { InitApi } from '../../initproto/gen/init_pb.js';
import { SystemClock } from '../clock/index.ts';
import { createMemoryLogger } from '../testing/memory-logger.ts';
import { callRaw, openRawSession } from '../testing/network/raw-session.ts';
import { temporaryDirectory } from '../testing/host/temporary-directory.ts';
import { implement, RpcServer, type Handlers, type RpcServerOptions } from './server.ts';
import type { Upgrade } from './upgrade.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const unused: Handlers<typeof InitApi, string> = {
  describe: async () => ({}),
  readEnrolment: async () => ({}),
  answerChallenge: async () => ({}),
  preflight: async () => ({}),
  statBlobs: async () => ({}),
  uploadBlob: async () => ({}),
  init: async function* () {},
  acknowledge: async () => ({}),
};

/** Starts a server that takes the first byte of a connection as the name of the client. */
async function start(
  limits: Pick<RpcServerOptions<string>, 'maxCallsPerConnection' | 'perPeer'>,
  describe: Handlers<typeof InitApi, string>['describe'],
) {
  const directory = await temporaryDirectory();
  open.push(directory);
  const byFirstByte: Upgrade<string> = async (socket) => {
    await once(socket, 'readable');
    return { socket, peer: String(socket.read(1)) };
  };
  const rpc = new RpcServer<string>({
    clock: new SystemClock(),
    upgrade: byFirstByte,
    services: [implement(InitApi, { ...unused, describe })],
    disclose: 'chain',
    log: createMemoryLogger().log,
    ...limits,
  });
  open.push(rpc);
  const path = join(directory.path, 'socket');
  await rpc.listenAt(path);
  return async (
    name: string,
    options: { readonly firstCalls?: number } = {},
  ): Promise<ClientHttp2Session> => {
    const session = await openRawSession(path, name, options);
    open.push({ [Symbol.asyncDispose]: async () => session.destroy() });
    return session;
  };
}

const describe = (session: ClientHttp2Session) => callRaw(session, InitApi.method.describe);

test('RpcServer refuses calls beyond maxCallsPerConnection', async () => {
  const release = Promise.withResolvers<void>();
  let begun = 0;
  const dial = await start({ maxCallsPerConnection: 4 }, async () => {
    begun++;
    await release.promise;
    return {};
  });
  const session = await dial('a', { firstCalls: 1_000 });
  const calls = Array.from({ length: 50 }, () => describe(session));
  const refused = await Promise.all(calls.slice(4));
  expect(new Set(refused)).toEqual(new Set(['Stream closed with error code NGHTTP2_REFUSED_STREAM']));
  expect(begun).toBe(4);
  release.resolve();
  expect(await Promise.all(calls.slice(0, 4))).toEqual(['OK', 'OK', 'OK', 'OK']);
  expect(await describe(session)).toBe('OK');
});

test('RpcServer closes the oldest connection of a peer beyond its limit, and no other connection', async () => {
  const dial = await start({ perPeer: { nameOf: (peer) => peer, maxConnections: 2 } }, async () => ({}));
  const [first, other] = [await dial('a'), await dial('b')];
  expect([await describe(first), await describe(other)]).toEqual(['OK', 'OK']);
  const second = await dial('a');
  expect(await describe(second)).toBe('OK');
  const gone = once(first, 'close');
  const third = await dial('a');
  expect(await describe(third)).toBe('OK');
  await gone;
  expect([await describe(second), await describe(other)]).toEqual(['OK', 'OK']);
});
