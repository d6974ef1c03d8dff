import type { X509Certificate } from 'node:crypto';
import { connect } from 'node:net';
import { InitApi } from '../../initproto/gen/init_pb.js';
import { selfSignedCertificate } from '../../internal/crypto/index.ts';
import {
  createClient,
  fingerprintOf,
  RpcChannel,
  RpcError,
  tlsClientUpgrade,
  type Client,
  type TlsIdentity,
  type Upgrade,
} from '../../internal/rpc/index.ts';
import type { CommandPorts } from '../app/command.ts';
import type { OwnerKey } from '../workspace/index.ts';
import { ClusterError } from './errors.ts';

/** A machine, as the operator named it. */
export interface Machine {
  /** "host:port". */
  readonly endpoint: string;
  /** "sha256:HEX" of the machine's public key. */
  readonly fingerprint: string;
}

/** A session with the machine: TLS 1.3, the owner key on our side, the machine's fingerprint on the other. */
export class InitSession implements Disposable {
  readonly machine: Machine;
  readonly #upgrade: Upgrade<string>;
  #channel: RpcChannel<string>;
  #handshakes = 0;

  constructor(machine: Machine, identity: TlsIdentity) {
    this.machine = machine;
    const upgrade = tlsClientUpgrade({ identity, accept: (shown) => accept(shown, machine) });
    this.#upgrade = async (socket, signal) => {
      const upgraded = await upgrade(socket, signal);
      this.#handshakes += 1;
      return upgraded;
    };
    this.#channel = this.#connect();
  }

  /** Calls go over one connection, made when it is needed. */
  get client(): Client<typeof InitApi> {
    return createClient(InitApi, this.#channel);
  }

  /**
   * How often the machine has proved who it is. A server tells a caller that it does not know nothing but "goodbye": the
   * handshake is complete on our side and then the connection ends.
   */
  get handshakes(): number {
    return this.#handshakes;
  }

  /** Lets go of a connection that is dead and does not know it; the next call makes another. */
  renew(): void {
    this.#channel[Symbol.dispose]();
    this.#channel = this.#connect();
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]();
  }

  #connect(): RpcChannel<string> {
    return new RpcChannel({ endpoint: this.machine.endpoint, upgrade: this.#upgrade });
  }
}

/** The owner's half of the session: a self-signed certificate as the carrier of the key. */
export async function ownerIdentity(ports: CommandPorts, ownerKey: OwnerKey): Promise<TlsIdentity> {
  const certPem = await selfSignedCertificate({
    keyPem: ownerKey.keyPem.reveal(),
    commonName: 'cluster owner',
    nowMs: ports.clock.nowMs(),
  });
  return { certPem, keyPem: ownerKey.keyPem };
}

/** The fingerprint that the machine at an address shows, for a person to compare. Nothing is sent to it. */
export async function showFingerprint(
  endpoint: string,
  identity: TlsIdentity,
  signal: AbortSignal,
): Promise<string> {
  const { hostname, port } = new URL(`tcp://${endpoint}`);
  const upgrade = tlsClientUpgrade({ identity, accept: fingerprintOf });
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve).once('error', reject);
      signal.addEventListener('abort', () => socket.destroy(signal.reason as Error), { once: true });
    });
    return (await upgrade(socket, signal)).peer;
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof RpcError) throw cause;
    throw new RpcError('rpc-unreachable', `asking ${endpoint} for its fingerprint`, { cause });
  } finally {
    socket.on('error', () => undefined); // it has told us enough
    socket.destroy();
  }
}

function accept(certificate: X509Certificate, machine: Machine): string {
  const shown = fingerprintOf(certificate);
  if (shown === machine.fingerprint) return shown;
  throw new ClusterError(
    'cluster-other-machine',
    `connecting to ${machine.endpoint}: it shows ${shown}, expected is ${machine.fingerprint}`,
    { details: { endpoint: machine.endpoint, shown, expected: machine.fingerprint } },
  );
}
