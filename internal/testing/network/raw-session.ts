import { create, toBinary, type DescMethodUnary } from '@bufbuild/protobuf';
import { once } from 'node:events';
import { connect as connectHttp2, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { connect } from 'node:net';

/**
 * Opens a raw gRPC session over a Unix socket, for tests with badly behaved clients.
 * @param name one byte, sent before the session: test servers identify their clients by it
 * @param options `firstCalls` is the number of calls that the client may open before the server has announced
 * its limit
 */
export async function openRawSession(
  path: string,
  name: string,
  options: { readonly firstCalls?: number } = {},
): Promise<ClientHttp2Session> {
  const socket = connect(path);
  await once(socket, 'connect');
  socket.write(name);
  const session = connectHttp2('http://peer', {
    createConnection: () => socket,
    ...(options.firstCalls === undefined ? {} : { peerMaxConcurrentStreams: options.firstCalls }),
  });
  session.on('error', () => undefined); // the connection may break
  return session;
}

/** Makes one call with an empty request, and returns its gRPC status or the connection error. */
export async function callRaw(session: ClientHttp2Session, method: DescMethodUnary): Promise<string> {
  const body = toBinary(method.input, create(method.input));
  const frame = Buffer.alloc(5 + body.length);
  frame.writeUInt32BE(body.length, 1);
  frame.set(body, 5);
  const stream = session.request({
    ':method': 'POST',
    ':path': `/${method.parent.typeName}/${method.name}`,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const { promise, resolve } = Promise.withResolvers<string>();
  stream.on('response', (headers) => {
    if (headers['grpc-status'] !== undefined) resolve(String(headers['grpc-message'] ?? ''));
  });
  stream.on('trailers', (trailers: IncomingHttpHeaders) => resolve(String(trailers['grpc-message'] ?? '')));
  stream.on('error', (error: Error) => resolve(error.message));
  stream.on('close', () => resolve('closed'));
  stream.resume();
  stream.end(frame);
  return promise;
}
