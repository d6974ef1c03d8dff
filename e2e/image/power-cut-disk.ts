import { createServer, type Server, type Socket } from 'node:net';
import { open, type FileHandle } from 'node:fs/promises';
import { once } from 'node:events';

/** A request of the machine that changes the disk, or makes earlier changes durable. */
export type DiskRequest =
  | { readonly kind: 'write'; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly kind: 'flush' };

/** The moment at which the power is cut. */
export interface Moment {
  /** Whether it is this request. Called once for each, in their order. */
  readonly at: (request: DiskRequest) => boolean;
  /** How much of the request the disk still does. */
  readonly does: 'nothing' | 'half' | 'all';
}

/** NBD, https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md */
const NBD = {
  magic: Buffer.from('NBDMAGICIHAVEOPT'),
  handshakeFlags: 1, // fixed newstyle
  optionReply: 0x0003_e889_0455_65a9n,
  go: 7,
  reply: { ack: 1, info: 3, unsupported: 0x8000_0001 },
  diskFlags: 0b101, // has flags, has flush
  request: 0x2560_9513,
  answer: 0x6744_6698,
  command: { read: 0, write: 1, disconnect: 2, flush: 3 },
  notSupported: 95,
};

/**
 * The disk of a machine, served to QEMU by NBD. As a real disk it keeps writes in a cache until a flush. At a chosen request it stops
 * answering, so that nothing after it happens; then the power is cut, and the cache is lost or not. The file is up to date except for the time of a cut.
 */
export class PowerCutDisk implements AsyncDisposable {
  /** For the option `file` of QEMU. */
  readonly url: string;
  readonly #server: Server;
  readonly #file: FileHandle;
  readonly #sizeBytes: number;
  /** What writes since the last flush have overwritten, oldest first. */
  readonly #overwritten: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  #moment: Moment | undefined;
  #reached = Promise.withResolvers<void>();
  #isStopped = false;
  #socket: Socket | undefined;
  #serving: Promise<void> = Promise.resolve();

  private constructor(options: {
    readonly server: Server;
    readonly socket: string;
    readonly file: FileHandle;
    readonly sizeBytes: number;
  }) {
    const { server, socket, file, sizeBytes } = options;
    this.url = `nbd+unix:///?socket=${socket}`;
    this.#server = server;
    this.#file = file;
    this.#sizeBytes = sizeBytes;
    this.#reached.promise.catch(() => undefined); // nobody may wait for it
    server.on('connection', (connection) => {
      this.#socket = connection.on('error', () => undefined);
      // Also if the machine ends by itself. After the moment, the end is expected.
      this.#serving = this.#serve(new Reader(connection)).catch((error: unknown) =>
        this.#reached.reject(error),
      );
    });
  }

  /**
   * @param path raw image of the disk
   * @param socket path at which the socket is created
   * @param moment undefined: only `stop()` stops the disk
   */
  static async serve(path: string, socket: string, moment?: Moment): Promise<PowerCutDisk> {
    const file = await open(path, 'r+');
    const server = createServer();
    const { size: sizeBytes } = await file.stat();
    const disk = new PowerCutDisk({ server, socket, file, sizeBytes });
    disk.#moment = moment;
    server.listen(socket);
    await once(server, 'listening');
    return disk;
  }

  /** Resolves at the moment. From then on the disk answers nothing. */
  async reached(): Promise<void> {
    await this.#reached.promise;
  }

  /** Stops answering now. */
  stop(): void {
    this.#isStopped = true;
    this.#reached.resolve();
  }

  /** Ends the cut, once the machine is off. `cache`: whether the writes since the last flush are on the disk. */
  async cut(cache: 'lost' | 'written'): Promise<void> {
    this.stop();
    this.#socket?.destroy();
    await this.#serving;
    if (cache === 'lost')
      for (const { offset, bytes } of this.#overwritten.toReversed())
        await this.#file.write(bytes, 0, bytes.length, offset);
    this.#overwritten.length = 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket?.destroy();
    this.#server.close();
    await this.#serving;
    await this.#file.close();
  }

  async #serve(reader: Reader): Promise<void> {
    await this.#greet(reader);
    for (;;) {
      const header = await reader.take(28);
      const [kind, handle] = [header.readUInt16BE(6), header.subarray(8, 16)];
      const [offset, length] = [Number(header.readBigUInt64BE(16)), header.readUInt32BE(24)];
      if (header.readUInt32BE(0) !== NBD.request || kind === NBD.command.disconnect) return;
      const isWrite = kind === NBD.command.write;
      const payload = isWrite ? await reader.take(length) : Buffer.alloc(0);
      if (this.#isStopped) return;
      const request: DiskRequest | undefined = isWrite
        ? { kind: 'write', offset, bytes: payload }
        : kind === NBD.command.flush
          ? { kind: 'flush' }
          : undefined;
      if (request !== undefined) {
        const does = this.#moment?.at(request) === true ? this.#moment.does : undefined;
        if (does !== 'nothing') await this.#perform(request, does === 'half');
        if (does !== undefined) return this.stop();
      }
      const answer = Buffer.alloc(8);
      answer.writeUInt32BE(NBD.answer);
      if (kind === NBD.command.read) reader.send(answer, handle, await this.#read(offset, length));
      else {
        if (request === undefined) answer.writeUInt32BE(NBD.notSupported, 4);
        reader.send(answer, handle);
      }
    }
  }

  async #perform(request: DiskRequest, isHalf: boolean): Promise<void> {
    if (request.kind === 'flush') {
      this.#overwritten.length = 0;
      return;
    }
    const { offset } = request;
    const bytes = request.bytes.subarray(0, isHalf ? request.bytes.length / 2 : undefined);
    this.#overwritten.push({ offset, bytes: await this.#read(offset, bytes.length) });
    await this.#file.write(bytes, 0, bytes.length, offset);
  }

  async #read(offset: number, length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(length);
    await this.#file.read(bytes, 0, length, offset);
    return bytes;
  }

  /** The handshake: agrees on the only disk that there is. */
  async #greet(reader: Reader): Promise<void> {
    const flags = Buffer.alloc(2);
    flags.writeUInt16BE(NBD.handshakeFlags);
    reader.send(NBD.magic, flags);
    await reader.take(4);
    for (;;) {
      const header = await reader.take(16);
      const option = header.readUInt32BE(8);
      await reader.take(header.readUInt32BE(12));
      const reply = (type: number, data: Uint8Array = Buffer.alloc(0)): void => {
        const head = Buffer.alloc(20);
        head.writeBigUInt64BE(NBD.optionReply);
        head.writeUInt32BE(option, 8);
        head.writeUInt32BE(type, 12);
        head.writeUInt32BE(data.length, 16);
        reader.send(head, data);
      };
      if (option === NBD.go) {
        const info = Buffer.alloc(12);
        info.writeBigUInt64BE(BigInt(this.#sizeBytes), 2);
        info.writeUInt16BE(NBD.diskFlags, 10);
        reply(NBD.reply.info, info);
        reply(NBD.reply.ack);
        return;
      }
      reply(NBD.reply.unsupported);
    }
  }
}

/** Reads a socket in pieces of a chosen length. */
class Reader {
  readonly #socket: Socket;
  readonly #chunks: AsyncIterator<Buffer>;
  #left: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async take(bytes: number): Promise<Buffer> {
    const parts = [this.#left];
    for (let length = this.#left.length; length < bytes;) {
      const next = await this.#chunks.next();
      if (next.done === true) throw new Error('the connection ended');
      parts.push(next.value);
      length += next.value.length;
    }
    const all = Buffer.concat(parts);
    this.#left = all.subarray(bytes);
    return all.subarray(0, bytes);
  }

  send(...parts: readonly Uint8Array[]): void {
    this.#socket.write(Buffer.concat(parts));
  }
}
