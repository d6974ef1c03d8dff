import { create, fromBinary, toBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import {
  connect as connectHttp2,
  type IncomingHttpHeaders,
  type ClientHttp2Session,
  type ClientHttp2Stream,
} from 'node:http2';
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { TlsIdentity } from '../../../internal/rpc/index.ts';
import { Curator, type WatchNodesResponse } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { Distribution } from '../../../joinservice/curatorproto/gen/distribution_pb.js';

const FRAME_HEAD = 5;
const TRIES = 60;
const LONGEST_PAUSE_MS = 2_000;

/** Events that a node receives from the curator. */
export interface NodeEvents {
  readonly onSelf: (message: WatchNodesResponse) => void;
  readonly onDirectory: () => void;
  /** Called when a heartbeat is due; the node omits the heartbeat if the result is false. */
  readonly maySendHeartbeat: () => boolean;
  readonly onHeartbeat: (waitedMs: number) => void;
  readonly onEnd: (why: string) => void;
}

/**
 * A node as its curator sees it: one mutual TLS connection with a watch of its own record, a watch of the
 * directory, and a stream of heartbeats. It uses HTTP/2 without a gRPC library, so that thousands of nodes
 * fit on the machine beside the curator.
 */
export class SimulatedNode implements Disposable {
  readonly nodeId: string;
  readonly #tls: TlsIdentity;
  #session: ClientHttp2Session | undefined;
  #socket: Socket | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(nodeId: string, tls: TlsIdentity) {
    this.nodeId = nodeId;
    this.#tls = tls;
  }

  /**
   * Connects and opens both watches. Heartbeats begin at once and continue at the interval that the curator
   * requests.
   */
  async start(port: number, events: NodeEvents): Promise<void> {
    const secured = await this.#connect(port);
    const session = connectHttp2(`https://127.0.0.1:${port}`, { createConnection: () => secured });
    this.#session = session;
    session.on('error', (error: Error) => events.onEnd(error.message));
    const { watchNode, updateNodeStatus } = Curator.method;
    const status = create(updateNodeStatus.input, {
      status: { address: '192.0.2.1', agentVersion: '0.1.0' },
    });
    const stated = this.#open(updateNodeStatus, () => undefined, events);
    stated.end(frameOf(updateNodeStatus.input, status));
    await once(stated, 'close');
    const self = this.#open(watchNode, events.onSelf, events);
    self.end(frameOf(watchNode.input, create(watchNode.input, { nodeId: this.nodeId })));
    const { watchDirectory } = Distribution.method;
    const directory = this.#open(watchDirectory, events.onDirectory, events);
    directory.end(frameOf(watchDirectory.input, create(watchDirectory.input)));
    this.#sendHeartbeats(events);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#session?.removeAllListeners('error');
    this.#session?.on('error', () => undefined);
    this.#session?.destroy();
    this.#socket?.destroy();
  }

  #sendHeartbeats(events: NodeEvents): void {
    const { heartbeat } = Curator.method;
    const frame = frameOf(heartbeat.input, create(heartbeat.input));
    let sentMs = 0;
    const send = (): void => {
      sentMs = performance.now();
      heartbeats.write(frame);
    };
    const later = (intervalMs: number): void => {
      this.#timer = setTimeout(() => (events.maySendHeartbeat() ? send() : later(intervalMs)), intervalMs);
    };
    const onAnswer = ({ intervalMs }: MessageShape<typeof heartbeat.output>): void => {
      events.onHeartbeat(performance.now() - sentMs);
      later(Number(intervalMs));
    };
    const heartbeats = this.#open(heartbeat, onAnswer, events);
    send();
  }

  /** Connects as an agent does: if the curator is overloaded, it tries again. */
  async #connect(port: number): Promise<TLSSocket> {
    for (let tries = 1; ; tries++) {
      const socket = connect({ host: '127.0.0.1', port, noDelay: true });
      this.#socket = socket;
      try {
        await once(socket, 'connect');
        const secured = connectTls({
          socket,
          cert: this.#tls.certPem,
          key: this.#tls.keyPem.reveal(),
          rejectUnauthorized: false, // the server is the one that this program has started
          ALPNProtocols: ['h2'],
        });
        await once(secured, 'secureConnect');
        return secured;
      } catch (error) {
        socket.destroy();
        if (tries === TRIES) throw error;
        await pause(Math.random() * LONGEST_PAUSE_MS);
      }
    }
  }

  #open<O extends DescMessage>(
    method: { readonly parent: { readonly typeName: string }; readonly name: string; readonly output: O },
    onMessage: (message: MessageShape<O>) => void,
    { onEnd }: NodeEvents,
  ): ClientHttp2Stream {
    const session = this.#session;
    if (session === undefined) throw new Error('opening a call before there is a connection');
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${method.parent.typeName}/${method.name}`,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    let rest: Buffer = Buffer.alloc(0);
    stream.on('data', (chunk: Buffer) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      while (rest.length >= FRAME_HEAD && rest.length >= FRAME_HEAD + rest.readUInt32BE(1)) {
        const end = FRAME_HEAD + rest.readUInt32BE(1);
        onMessage(fromBinary(method.output, rest.subarray(FRAME_HEAD, end)));
        rest = rest.subarray(end);
      }
    });
    stream.on('trailers', (trailers: IncomingHttpHeaders) => {
      if (trailers['grpc-status'] !== '0') onEnd(`${method.name}: ${String(trailers['grpc-message'])}`);
    });
    stream.on('error', (error: Error) => onEnd(`${method.name}: ${error.message}`));
    return stream;
  }
}

/** A frame of gRPC over HTTP/2: one byte for "not compressed", four for the length, then the message. */
function frameOf<I extends DescMessage>(schema: I, message: MessageShape<I>): Buffer {
  const body = toBinary(schema, message);
  const frame = Buffer.alloc(FRAME_HEAD + body.length);
  frame.writeUInt32BE(body.length, 1);
  frame.set(body, FRAME_HEAD);
  return frame;
}
