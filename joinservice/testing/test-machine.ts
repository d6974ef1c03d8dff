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
import { decryptWithTpm, encodeChallenge } from '../../internal/attestation/enrolment/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import {
  diskShareEvidenceBinding,
  encodeDiskShareStatement,
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
/** By default a machine requests every role; its record decides. */
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

/** The evidence of a machine; internal/testing has the evidence of a TPM and of a bare key. */
export interface TestHardware {
  readonly issuer: Issuer;
  readonly enrolment: () => Promise<Uint8Array>;
  readonly answer: (challenge: Uint8Array, session: Uint8Array) => Promise<Uint8Array>;
  readonly lock: (clusterId: string) => Promise<void>;
}

/** A minimal joining machine. A test can make every step send false data. */
export class TestMachine {
  readonly privKey: KeyObject;
  readonly pubKeyDer: Uint8Array;
  readonly nodeId: string;
  readonly sealingKeyPem = generateKeyPem();
  /** The address that the machine claims to have. */
  address = '192.0.2.1';
  /** The session of the machine’s newest statement. */
  askedIn = new Uint8Array();
  readonly #hardware: TestHardware;

  constructor(hardware: TestHardware, privKey = generateKeyPairSync('ed25519').privateKey) {
    this.privKey = privKey;
    this.pubKeyDer = spkiDerOf(createPublicKey(privKey));
    this.nodeId = nodeIdOf(this.pubKeyDer);
    this.#hardware = hardware;
  }

  /** Opens one session of attested TLS. `localAddress`: the source address of the machine. */
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
    channel.grpc.getChannel().getConnectivityState(true); // connects now instead of with the first call
    return new TestSession(this, this.#hardware, { endpoint, channel, peer: connected.promise });
  }

  sign(statement: Uint8Array): Uint8Array {
    return new Uint8Array(sign(undefined, statement, this.privKey));
  }

  /**
   * Keys for a ticket, with the signed statement of this machine and the evidence over it. `over`: the false
   * fields.
   */
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
      opensHpke: true,
    };
  }
}

type Message = MessageInitShape<typeof AdmissionRequestSchema>;
export type TestHello = Partial<
  Pick<Hello, 'hostname' | 'address' | 'wantedName' | 'wantedRoles' | 'nowMs' | 'facts'>
>;

/** A session and the calls in it. */
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

  /** All events until admission; throws the error of a refusal. */
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

  /** Resolves with the admission, however long the machine waits. */
  async admitted(hello: TestHello = {}, hardware = this.#hardware) {
    for await (const event of this.admission(hello, hardware))
      if (event.case === 'admitted') return event.value;
    throw new Error('the stream ended without an admission');
  }

  /** Requests the ticket in a new session, whose evidence shows the node lock. */
  async ticket(joinId?: string): Promise<Ticket> {
    await this.#hardware.lock(await this.#clusterId());
    using session = await this.#machine.dial(this.#endpoint);
    return await session.ticketHere(joinId);
  }

  /** Requests the ticket in this session, whether or not its evidence shows the node lock. */
  async ticketHere(joinId = this.#machine.nodeId): Promise<Ticket> {
    const keys = await this.keys();
    return this.client.issueJoinTicket({ key: await this.keyProof(), joinId, keys }, { signal: never });
  }

  async rejoin(address = this.#machine.address): Promise<Ticket> {
    const keys = await this.keys({ address });
    return this.client.issueRejoinTicket({ key: await this.keyProof(), address, keys }, { signal: never });
  }

  /**
   * The cluster share of a state disk, hex, decrypted with the TPM of the machine. `uuid`: the disk that the evidence is bound to.
   */
  async diskShare(uuid: string, over: { readonly uuid?: string } = {}): Promise<string> {
    const [{ session }, clusterId] = await Promise.all([this.peer, this.#clusterId()]);
    const { issuer, enrolment: read, answer } = this.#hardware;
    const said = { clusterId, uuid, enrolment: await read(), session, timeMs: clock.nowMs() };
    const binding = diskShareEvidenceBinding(encodeDiskShareStatement(said));
    const given = await this.client.issueDiskShare(
      {
        ...{ uuid, enrolment: said.enrolment, timeMs: BigInt(said.timeMs) },
        evidence: [{ variant: issuer.variant, document: await issuer.issue(binding, never) }],
        ...over,
      },
      { signal: never },
    );
    const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
    const box = {
      challenge: text(given.challenge),
      nonce: text(given.nonce),
      ciphertext: text(given.ciphertext),
    };
    const share = await decryptWithTpm(box, session, (challenge, of) =>
      answer(encodeChallenge(challenge), of),
    );
    return Buffer.from(share.reveal()).toString('hex');
  }

  /** The keys of a ticket request in this session. */
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

/** A stream that sends each message when the test provides it. */
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
