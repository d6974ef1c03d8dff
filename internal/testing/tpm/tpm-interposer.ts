import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { SystemClock } from '../../clock/index.ts';
import { socketSource, Tpm, type TransportSource } from '../../tpm/index.ts';

/** A command or a response on its way. */
export interface Intercepted {
  readonly direction: 'command' | 'response';
  /** The code of the command, also for its response. */
  readonly code: number;
  readonly bytes: Uint8Array;
}

/** Changes a message on its way; undefined leaves it as it is. */
export type Alteration = (message: Intercepted) => Uint8Array | undefined;

/** An attacker between a machine and its TPM, who records and changes what passes. */
export interface TpmInterposer extends AsyncDisposable {
  readonly source: TransportSource;
  /** Everything that passed, as it left its sender. */
  readonly traffic: Intercepted[];
  /** Set by a test. */
  alter: Alteration;
  /** A client behind the interposer. Dispose it first. */
  open(): Tpm;
  /** Whether these bytes passed in either direction. */
  saw(bytes: Uint8Array): boolean;
}

/** Listens at a socket beside that of a software TPM. */
export async function interpose(tpmSocketPath: string): Promise<TpmInterposer> {
  const path = `${tpmSocketPath}.interposed`;
  const source = socketSource({ path });
  const sockets = new Set<Socket>();
  const interposer = {
    source,
    traffic: [] as Intercepted[],
    alter: (() => undefined) as Alteration,
    open: () => new Tpm({ source, clock: new SystemClock() }),
    saw: (bytes: Uint8Array) =>
      interposer.traffic.some((each) => Buffer.from(each.bytes).includes(Buffer.from(bytes))),
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  const pass = (message: Intercepted): Uint8Array => {
    interposer.traffic.push(message);
    return interposer.alter(message) ?? message.bytes;
  };
  const server = createServer((machine) => {
    const tpm = connect({ path: tpmSocketPath });
    let code = 0;
    onMessages(machine, (bytes) => {
      code = Buffer.from(bytes).readUInt32BE(6);
      tpm.write(pass({ direction: 'command', code, bytes }));
    });
    onMessages(tpm, (bytes) => machine.write(pass({ direction: 'response', code, bytes })));
    for (const [one, other] of [
      [machine, tpm],
      [tpm, machine],
    ] as const) {
      sockets.add(one);
      one.on('error', () => undefined).on('close', () => (sockets.delete(one), other.destroy()));
    }
  });
  server.listen(path);
  await once(server, 'listening');
  return interposer;
}

/** Cuts a stream into commands or responses, whose header has their length. */
function onMessages(socket: Socket, pass: (message: Uint8Array) => void): void {
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= 10 && received.length >= received.readUInt32BE(2)) {
      const length = received.readUInt32BE(2);
      pass(new Uint8Array(received.subarray(0, length)));
      received = received.subarray(length);
    }
  });
}
