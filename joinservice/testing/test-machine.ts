import { createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import type { Socket } from 'node:net';
import {
  atlsClientUpgrade,
  RotatingKeys,
  type AttestedPeer,
  type EvidenceRules,
  JOIN_CONTEXT,
} from '../../internal/atls/index.ts';
import { TpmValidator } from '../../internal/attestation/tpm/index.ts';
import { MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import {
  encodeTicketStatement,
  machineKeyStatement,
  ticketEvidenceBinding,
  type TicketStatement,
} from '../../internal/crypto/index.ts';
import {
  createCertificateRequest,
  generateKeyPem,
  nodeIdOf,
  pubKeyDerOf,
  spkiDerOf,
} from '../../internal/pki/index.ts';
import { createClient, RpcChannel, type Client, type Upgrade } from '../../internal/rpc/index.ts';
import type { Issuer } from '../../internal/attestation/index.ts';
import {
  Join,
  type AdmissionEvent,
  type AdmissionRequestSchema,
  type Hello,
  type Ticket,
} from '../joinproto/gen/join_pb.js';
import type { MessageInitShape } from '@bufbuild/protobuf';

const clock = new SystemClock();
const never = new AbortController().signal;
/** A machine that knows no better asks for everything; its record decides. */
const ROLES = ['ConsensusMember', 'KubernetesController', 'KubernetesWorker'];
const ANY_MACHINE: EvidenceRules = {
  policy: {
    version: 'test',
    registers: new Map(),
    machines: 'any',
    tpm: {
      attestationKeys: 'enrolling',
      requiredPcrs: [0],
      requireSafeClock: false,
      eventLog: 'optional',
      loggedPcrs: [],
    },
  },
  collateral: { tpm: { attestationKeys: new Map() } },
};

/** What a machine proves itself with; internal/testing has a TPM's and a bare key's. */
export interface TestHardware {
  readonly issuer: Issuer;
  readonly enrolment: () => Promise<Uint8Array>;
  readonly answer: (challenge: Uint8Array, session: Uint8Array) => Promise<Uint8Array>;
  readonly lock: (clusterId: string) => Promise<void>;
}

/** The machine's end of joining, as simple as it can be; every step can be told to lie. */
export class TestMachine {
  readonly privKey: KeyObject;
  readonly pubKeyDer: Uint8Array;
  readonly nodeId: string;
  readonly sealingKeyPem = generateKeyPem();
  /** Where it says to be. */
  address = '192.0.2.1';
  /** The session of its newest statement. */
  askedIn = new Uint8Array();
  readonly #hardware: TestHardware;

  constructor(hardware: TestHardware, privKey = generateKeyPairSync('ed25519').privateKey) {
    this.privKey = privKey;
    this.pubKeyDer = spkiDerOf(createPublicKey(privKey));
    this.nodeId = nodeIdOf(this.pubKeyDer);
    this.#hardware = hardware;
  }

  /** One session of attested TLS. `localAddress`: where this machine calls from. */
  async dial(
    endpoint: string,
    options: { readonly tcp?: (tcp: Socket) => Socket } = {},
  ): Promise<TestSession> {
    const upgrade = atlsClientUpgrade({
      trust: {
        trust: 'mutual',
        shows: [this.#hardware.issuer],
        accepts: [new TpmValidator(), new MachineKeyValidator({ fingerprints: 'any' })],
        rules: () => ANY_MACHINE,
      },
      context: JOIN_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    });
    const connected = Promise.withResolvers<AttestedPeer>();
    connected.promise.catch(() => undefined);
    const noting: Upgrade<AttestedPeer> = async (tcp, signal) => {
      try {
        const upgraded = await upgrade(options.tcp?.(tcp) ?? tcp, signal);
        connected.resolve(upgraded.peer);
        return upgraded;
      } catch (error) {
        connected.reject(error);
        throw error;
      }
    };
    const channel = new RpcChannel({ endpoint, upgrade: noting });
    channel.grpc.getChannel().getConnectivityState(true); // connects now, not with the first call
    return new TestSession(this, this.#hardware, { endpoint, channel, peer: connected.promise });
  }

  sign(statement: Uint8Array): Uint8Array {
    return new Uint8Array(sign(undefined, statement, this.privKey));
  }

  /** Keys for a ticket, with this machine's signed statement and the evidence over it. `over`: what it lies about. */
  async ticketKeys(
    asked: Pick<TicketStatement, 'clusterId' | 'session'> &
      Partial<Pick<TicketStatement, 'address' | 'roles' | 'timeMs'>>,
    over: Partial<TicketStatement> = {},
  ) {
    const keys = {
      kubeletClientCsr: await createCertificateRequest(generateKeyPem(), 'x'),
      kubeletServingCsr: await createCertificateRequest(generateKeyPem(), 'x'),
      sealingPublicKey: pubKeyDerOf(this.sealingKeyPem),
    };
    const { address = this.address, roles = ROLES, timeMs = clock.nowMs() } = asked;
    this.askedIn = new Uint8Array(asked.session);
    const said = { ...asked, ...keys, address, roles, timeMs, nodePubKeyDer: this.pubKeyDer };
    const statement = encodeTicketStatement({ ...said, ...over });
    const { issuer } = this.#hardware;
    const document = await issuer.issue(ticketEvidenceBinding(statement), never);
    return {
      ...{ ...keys, address, roles: [...roles], timeMs: BigInt(timeMs) },
      signature: this.sign(statement),
      evidence: [{ variant: issuer.variant, document }],
      enrolment: await this.#hardware.enrolment(),
    };
  }
}

type Message = MessageInitShape<typeof AdmissionRequestSchema>;
export type TestHello = Partial<
  Pick<Hello, 'hostname' | 'address' | 'wantedName' | 'wantedRoles' | 'nowMs' | 'facts'>
>;

/** A session and what is said in it. */
export class TestSession implements Disposable {
  readonly client: Client<typeof Join>;
  readonly peer: Promise<AttestedPeer>;
  readonly #machine: TestMachine;
  readonly #hardware: TestHardware;
  readonly #channel: RpcChannel<AttestedPeer>;
  readonly #endpoint: string;

  constructor(
    machine: TestMachine,
    hardware: TestHardware,
    connection: {
      readonly endpoint: string;
      readonly channel: RpcChannel<AttestedPeer>;
      readonly peer: Promise<AttestedPeer>;
    },
  ) {
    this.#endpoint = connection.endpoint;
    this.#machine = machine;
    this.#hardware = hardware;
    this.#channel = connection.channel;
    this.peer = connection.peer;
    this.client = createClient(Join, connection.channel);
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]();
  }

  async keyProof(machine = this.#machine) {
    const { session } = await this.peer;
    return { publicKey: machine.pubKeyDer, signature: machine.sign(machineKeyStatement(session)) };
  }

  /** All events until admission; throws what it is refused with. */
  async *admission(
    hello: TestHello = {},
    hardware = this.#hardware,
  ): AsyncGenerator<AdmissionEvent['event']> {
    const outgoing = new Outgoing();
    const events = this.client.requestAdmission(outgoing, { signal: never });
    try {
      for await (const { event } of events) {
        if (event.case === 'cluster') outgoing.say(await this.#hello(hello, hardware));
        if (event.case === 'challenge') {
          const { session } = await this.peer;
          const answer = await hardware.answer(event.value.challenge, session);
          outgoing.say({ message: { case: 'challengeAnswer', value: { answer } } });
        }
        yield event;
      }
    } finally {
      outgoing.end();
    }
  }

  /** Resolves with the admission, whatever has to be waited for. */
  async admitted(hello: TestHello = {}, hardware = this.#hardware) {
    for await (const event of this.admission(hello, hardware))
      if (event.case === 'admitted') return event.value;
    throw new Error('the stream ended without an admission');
  }

  /** The commit, over a session of its own that shows the lock. */
  async ticket(joinId?: string): Promise<Ticket> {
    await this.#hardware.lock(await this.#clusterId());
    using session = await this.#machine.dial(this.#endpoint);
    return await session.ticketHere(joinId);
  }

  /** The commit over this very session, whatever its evidence shows. */
  async ticketHere(joinId = this.#machine.nodeId): Promise<Ticket> {
    const keys = await this.keys();
    return this.client.issueJoinTicket({ key: await this.keyProof(), joinId, keys }, { signal: never });
  }

  async rejoin(address = this.#machine.address): Promise<Ticket> {
    const keys = await this.keys({ address });
    return this.client.issueRejoinTicket({ key: await this.keyProof(), address, keys }, { signal: never });
  }

  /** Keys to ask with in this session. */
  async keys(asked: { readonly address?: string } = {}, over: Partial<TicketStatement> = {}) {
    const [{ session }, clusterId] = await Promise.all([this.peer, this.#clusterId()]);
    return this.#machine.ticketKeys({ ...asked, session, clusterId }, over);
  }

  async #clusterId(): Promise<string> {
    for await (const { event } of this.client.requestAdmission(new Outgoing(), { signal: never }))
      if (event.case === 'cluster') return event.value.clusterId;
    throw new Error('the stream ended without an introduction');
  }

  async #hello(hello: TestHello, hardware: TestHardware): Promise<Message> {
    const value = {
      key: await this.keyProof(),
      agentVersion: '0.1.0',
      hostname: 'machine',
      address: this.#machine.address,
      nowMs: BigInt(clock.nowMs()),
      enrolment: await hardware.enrolment(),
      ...hello,
    };
    return { message: { case: 'hello', value } };
  }
}

/** Messages of a stream, one when it is due. */
class Outgoing implements AsyncIterable<Message> {
  readonly #said: Message[] = [];
  #isOver = false;
  #wake: () => void = () => undefined;

  say(message: Message): void {
    this.#said.push(message);
    this.#wake();
  }

  end(): void {
    this.#isOver = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message> {
    for (;;) {
      const next = this.#said.shift();
      if (next !== undefined) yield next;
      else if (this.#isOver) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
