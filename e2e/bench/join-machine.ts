import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { atlsClientUpgrade, NO_RULES, RotatingKeys, type AttestedPeer } from '../../internal/atls/index.ts';
import { JOIN_CONTEXT } from '../../internal/atls/remote/index.ts';
import { MachineKeyIssuer, MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { machineKeyStatement, ticketKeysStatement } from '../../internal/crypto/index.ts';
import {
  createRequest,
  fingerprintOfKey,
  generateKeyPem,
  nodeIdOf,
  pubKeyOf,
  spkiOf,
} from '../../internal/pki/index.ts';
import { createClient, RpcChannel } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { Join, type Ticket } from '../../joinservice/joinproto/gen/join_pb.js';

const clock = new SystemClock();
const never = new AbortController().signal;
/** Judging the join service is not what is measured here: any key will do. */
const ANY_SERVER = { ...NO_RULES, policy: { ...NO_RULES.policy, machines: 'any' as const } };
/** One process is all machines at once; each of them alone would be faster. */
const PATIENCE = { tlsMs: 60_000, helloMs: 60_000, wholeMs: 120_000, lingerMs: 500 };

/** A machine with a key and an address of its own, and what it took to become a member. */
export class BenchMachine {
  readonly identity: string;
  readonly nodeId: string;
  readonly name: string;
  readonly #address: string;
  readonly #privKey: KeyObject;
  readonly #pubKeyDer: Uint8Array;
  readonly #tlsKeys = new RotatingKeys({ clock });
  #ticketKeys: Awaited<ReturnType<BenchMachine['makeKeys']>> | undefined;

  constructor(index: number) {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    this.#privKey = privateKey;
    this.#pubKeyDer = spkiOf(publicKey);
    this.identity = `machine-key:${fingerprintOfKey(this.#pubKeyDer).replace('sha256:', '')}`;
    this.nodeId = nodeIdOf(this.#pubKeyDer);
    this.name = `m-${index}`;
    this.#address = `127.1.${Math.floor(index / 250)}.${(index % 250) + 1}`;
  }

  /** What a real machine has done before it calls, on a processor of its own. */
  async prepare(): Promise<void> {
    await this.#tlsKeys.current();
    this.#ticketKeys = await this.makeKeys();
  }

  /** From the first byte to the ticket: a session of attested TLS, admission, commit. No retry. */
  async join(host: string, port: number): Promise<Ticket> {
    const peer = Promise.withResolvers<AttestedPeer>();
    peer.promise.catch(() => undefined);
    const upgrade = atlsClientUpgrade({
      trust: {
        trust: 'mutual',
        shows: [new MachineKeyIssuer({ privKey: new Secret(this.#privKey) })],
        accepts: [new MachineKeyValidator({ fingerprints: 'any' })],
        rules: () => ANY_SERVER,
      },
      context: JOIN_CONTEXT,
      keys: this.#tlsKeys,
      clock,
      timers: PATIENCE,
    });
    const own = async (tcp: Socket, signal: AbortSignal) => {
      try {
        tcp.destroy(); // grpc's own, which can't choose where it comes from
        const socket = connect({ host, port, localAddress: this.#address, noDelay: true });
        await once(socket, 'connect');
        const upgraded = await upgrade(socket, signal);
        peer.resolve(upgraded.peer);
        return upgraded;
      } catch (error) {
        peer.reject(error);
        throw error;
      }
    };
    using channel = new RpcChannel({ endpoint: `${host}:${port}`, upgrade: own });
    channel.grpc.getChannel().getConnectivityState(true); // connects now, not with the first call
    const { session } = await peer.promise;
    const key = { publicKey: this.#pubKeyDer, signature: this.#sign(machineKeyStatement(session)) };
    const client = createClient(Join, channel);
    const hello = {
      key,
      agentVersion: '0.1.0',
      hostname: this.name,
      address: this.#address,
      nowMs: BigInt(clock.nowMs()),
    };
    const over = Promise.withResolvers<void>();
    async function* says() {
      yield { message: { case: 'hello', value: hello } } as const;
      await over.promise;
    }
    for await (const { event } of client.requestAdmission(says(), { signal: never }))
      if (event.case === 'admitted') break;
    over.resolve();
    return await client.issueJoinTicket(
      { key, joinId: this.nodeId, keys: this.#ticketKeys ?? (await this.makeKeys()) },
      { signal: never },
    );
  }

  async makeKeys() {
    const keys = {
      kubeletClientCsr: await createRequest(generateKeyPem(), 'client'),
      kubeletServingCsr: await createRequest(generateKeyPem(), 'serving'),
      sealingPublicKey: pubKeyOf(generateKeyPem()),
    };
    return { ...keys, signature: this.#sign(ticketKeysStatement({ nodeId: this.nodeId, ...keys })) };
  }

  #sign(statement: Uint8Array): Uint8Array {
    return new Uint8Array(sign(undefined, statement, this.#privKey));
  }
}
