import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import {
  atlsClientUpgrade,
  atlsServerUpgrade,
  type AttestedPeer,
  type MutualTrust,
} from '../../internal/atls/index.ts';
import { FixedKeys } from '../../internal/atls/fake-tls-keys.ts';
import { machineIdentityText } from '../../internal/attestation/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { createLogger } from '../../internal/logging/index.ts';
import { createClient, implement, RpcChannel, RpcServer, type Upgrade } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { createTestIdentity, Echo, type TestIdentity } from '../../internal/testing/atls/index.ts';

export const CONTEXT = '00112233445566778899aabbccddeeff/joinservice';
export const clock = new SystemClock();
const never = new AbortController().signal;

/**
 * A server that returns the identity of the caller for each call, and records the connections that it
 * refuses.
 */
export class EchoServer implements AsyncDisposable {
  readonly identity: TestIdentity;
  readonly port: number;
  readonly #rpc: RpcServer<AttestedPeer>;
  readonly #refusals: string[];

  private constructor(
    identity: TestIdentity,
    port: number,
    rpc: RpcServer<AttestedPeer>,
    refusals: string[],
  ) {
    this.identity = identity;
    this.port = port;
    this.#rpc = rpc;
    this.#refusals = refusals;
  }

  /**
   * @param trust The clients that the server accepts: those with this machine evidence or these owner keys.
   */
  static async start(trust: MutualTrust, context = CONTEXT): Promise<EchoServer> {
    const identity = await createTestIdentity();
    const refusals: string[] = [];
    const log = createLogger({
      path: 'server',
      nowMs: () => clock.nowMs(),
      sink: ({ fields }) => {
        const codes = codesOf(fields['error']);
        // Not a refusal: a closed gRPC channel may connect once more and send nothing, until the server times
        // out.
        if (codes !== 'atls-timeout') refusals.push(codes);
      },
    });
    const rpc = new RpcServer<AttestedPeer>({
      clock,
      upgrade: atlsServerUpgrade({ trust, context, keys: keysOf(identity), clock }),
      services: [
        implement(Echo, {
          echo: (_request, { peer }: { readonly peer: AttestedPeer }) =>
            Promise.resolve({ value: Buffer.from(machineIdentityText(peer.machineIdentity)) }),
        }),
      ],
      disclose: 'chain',
      log,
    });
    return new EchoServer(identity, await rpc.listen('127.0.0.1', 0), rpc, refusals);
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Waits for the next refusal and returns its codes, outermost first: "atls-evidence-rejected tpm-nonce". */
  async refusal(): Promise<string> {
    const untilMs = clock.monotonicMs() + 25_000;
    while (this.#refusals.length === 0 && clock.monotonicMs() < untilMs) await clock.sleep(5, never);
    return this.#refusals.shift() ?? 'nobody was refused';
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#rpc.close(0);
  }
}

export function clientUpgrade(
  trust: MutualTrust,
  identity: TestIdentity,
  context = CONTEXT,
): Upgrade<AttestedPeer> {
  return atlsClientUpgrade({ trust, context, keys: keysOf(identity), clock });
}

/** Calls an echo server (this project's or the Go one). Returns the identities of both ends, or the codes of the refusal. */
export async function call(address: string, upgrade: Upgrade<AttestedPeer>): Promise<Answer> {
  using channel = new RpcChannel<AttestedPeer>({ endpoint: address, upgrade });
  try {
    const { value } = await createClient(Echo, channel).echo({}, { signal: never, timeoutMs: 25_000 });
    const peer = channel.peer === undefined ? '' : machineIdentityText(channel.peer.machineIdentity);
    return { answer: Buffer.from(value).toString(), peer };
  } catch (error) {
    return { refused: codesOf(error) };
  }
}

export type Answer = { readonly answer: string; readonly peer: string } | { readonly refused: string };

/** The error codes of a chain of causes, outermost first, separated by spaces. */
export function codesOf(error: unknown): string {
  const codes: string[] = [];
  for (let at = findCoded(error); at !== undefined; at = findCoded(at.cause)) codes.push(at.code);
  return codes.join(' ') || String(error);
}

/** Listens as an attacker on the network and passes each connection to `meet`, whose errors are ignored. */
export async function listen(
  meet: (tcp: Socket) => Promise<void>,
): Promise<{ readonly address: string } & Disposable> {
  const server: Server = createServer({ noDelay: true }, (tcp) => {
    tcp.on('error', () => undefined);
    meet(tcp).catch(() => tcp.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.dispose]: () => server.close(),
  };
}

export async function dial(address: string): Promise<Socket> {
  const port = Number(address.split(':')[1]);
  const tcp = connect({ host: '127.0.0.1', port, noDelay: true });
  tcp.on('error', () => undefined);
  await once(tcp, 'connect');
  return tcp;
}

function keysOf({ certPem, keyPem }: TestIdentity): FixedKeys {
  return new FixedKeys({ certPem, keyPem: new Secret(keyPem) });
}
