import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { Mailbox } from '../../internal/event/index.ts';
import type { Call } from '../../internal/rpc/index.ts';
import { FakeClock } from '../../internal/testing/index.ts';
import type { Caller, NodeView } from '../curator/index.ts';
import {
  DiskRotationReportSchema,
  PowerAction,
  OpenSessionRequestSchema,
  ProbeRemovedRequestSchema,
  ProbeReportSchema,
  StreamLogsRequestSchema,
  type OpenSessionRequest,
  type OpenSessionResponse,
} from '../curatorproto/gen/streams_pb.js';
import { NodeSessions, streamHandlers } from './index.ts';

const coded = (code: string, message?: string): unknown =>
  expect.objectContaining({
    code,
    ...(message === undefined ? {} : { message: expect.stringContaining(message) }),
  });

const nodeCaller: Caller = { kind: 'node', nodeId: 'id-1', name: 'n1', addresses: [] };
const operator: Caller = { kind: 'operator', fingerprint: 'sha256:00', name: 'me', role: 'viewer' };

function view(isAlive: boolean): NodeView {
  return {
    record: {
      version: 1,
      nodeId: 'id-1',
      name: 'n1',
      pubKey: '',
      state: 'UP',
      roles: [],
      labels: {},
      createdMs: 0,
    },
    recordRevision: 1n,
    status: { version: 1, status: '', updatedMs: 0 },
    isAlive,
  };
}

const stops: AbortController[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop.abort(new Error('the test is over'));
});

function setUp(isAlive = true) {
  const clock = new FakeClock();
  const sessions = new NodeSessions();
  const handlers = streamHandlers({ sessions, findNode: async () => view(isAlive), clock });
  const stop = new AbortController();
  stops.push(stop);
  const call = (peer: Caller): Call<Caller> => ({ peer, signal: stop.signal });
  return { clock, sessions, handlers, call, asOperator: call(operator) };
}

type Setup = ReturnType<typeof setUp>;

/** A node whose messages the test sends one by one. */
async function openSession({ handlers, call }: Setup) {
  const said = new Mailbox<OpenSessionRequest>(64);
  const heard = handlers
    .openSession(said.read(new AbortController().signal), call(nodeCaller))
    [Symbol.asyncIterator]() as AsyncIterator<Pick<OpenSessionResponse, 'message'>>;
  const next = async () => ((await heard.next()).value as Pick<OpenSessionResponse, 'message'>).message;
  expect(await next()).toMatchObject({ case: 'idle' });
  return {
    next,
    say: (message: OpenSessionRequest['message']) => said.push(create(OpenSessionRequestSchema, { message })),
    data: (task: bigint, text: string | Uint8Array) =>
      said.push(
        create(OpenSessionRequestSchema, {
          message: { case: 'data', value: { task, data: new Uint8Array(Buffer.from(text)) } },
        }),
      ),
    done: (task: bigint, error?: { code: string; message: string }) =>
      said.push(
        create(OpenSessionRequestSchema, {
          message: { case: 'done', value: { task, ...(error === undefined ? {} : { error }) } },
        }),
      ),
    leave: () => said.close(),
  };
}

const logsOf = (source: { path: string } | { units: string[] }, backlog = 10) =>
  create(StreamLogsRequestSchema, {
    node: 'n1',
    logs: {
      backlog,
      source:
        'path' in source
          ? { case: 'path', value: source.path }
          : { case: 'units', value: { names: source.units } },
    },
  });

const BOOT = '0f8fad5b-d9cb-469f-a165-70867728950e';
const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString();

describe('a task that the curator sends to a node', () => {
  test('a task goes over the session of the node, and its results arrive in order and end', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const lines = setup.handlers.streamLogs(logsOf({ path: 'root.roleserve' }), setup.asOperator);
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { lines: bytes } of lines) seen.push(text(bytes));
    })();
    const order = await node.next();
    expect(order).toMatchObject({
      case: 'task',
      value: {
        task: 1n,
        what: { case: 'logs', value: { backlog: 10, source: { value: 'root.roleserve' } } },
      },
    });
    for (const line of ['a\n', 'b\n']) node.data(1n, line);
    node.done(1n);
    await reading;
    expect(seen).toEqual(['a\n', 'b\n']);
  });

  test('the curator lets the node send more data (credit) only as the caller reads', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const lines = setup.handlers.streamLogs(logsOf({ path: '' }), setup.asOperator)[Symbol.asyncIterator]();
    const first = lines.next();
    expect(await node.next()).toMatchObject({ case: 'task', value: { credit: 16 } });
    for (let i = 0; i < 16; i++) node.data(1n, `${i}`);
    await first;
    for (let i = 0; i < 4; i++) await lines.next();
    expect(await node.next()).toMatchObject({ case: 'credit', value: { task: 1n, messages: 4 } });
  });

  test('a task is canceled when the caller leaves', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const lines = setup.handlers.streamLogs(logsOf({ path: '' }), setup.asOperator)[Symbol.asyncIterator]();
    const first = lines.next();
    await node.next();
    node.data(1n, 'x');
    await first;
    await lines.return?.();
    expect(await node.next()).toMatchObject({ case: 'cancel', value: { task: 1n } });
    node.data(1n, 'late'); // sent before the node received the cancellation, so it is no violation
    node.say({ case: 'hello', value: create(OpenSessionRequestSchema) as never });
    expect(setup.sessions.get('id-1')).toBeDefined();
  });

  test('a task for evidence returns the whole evidence with its variant', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const nonce = new Uint8Array(32).fill(7);
    const answer = setup.handlers.getEvidence({ node: 'n1', nonce } as never, setup.asOperator);
    expect(await node.next()).toMatchObject({ case: 'task', value: { what: { value: { nonce } } } });
    for (const part of ['tpm', 'evi', 'dence']) node.data(1n, part);
    node.done(1n);
    const { nodeId, variant, evidence } = await answer;
    expect([nodeId, variant, text(evidence as Uint8Array)]).toEqual(['id-1', 'tpm', 'evidence']);
  });

  test('a reset order of the owner reaches the node, and is answered after the node has stored it on disk', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const voucher = { by: new Uint8Array(32).fill(3), signature: new Uint8Array(64).fill(4) };
    const order = {
      ...{ ownerPubKey: new Uint8Array(32).fill(1), signature: new Uint8Array(64).fill(2) },
      vouchers: [voucher],
    };
    const answer = setup.handlers.resetNode({ node: 'n1', order } as never, setup.asOperator);
    expect(await node.next()).toMatchObject({
      case: 'task',
      value: { what: { case: 'reset', value: order } },
    });
    node.done(1n);
    expect(await answer).toEqual({});
    for (const odd of [
      undefined,
      { ...order, signature: new Uint8Array(1) },
      { ...order, ownerPubKey: new Uint8Array(31) },
      { ...order, vouchers: Array.from({ length: 17 }, () => voucher) },
    ])
      await expect(
        setup.handlers.resetNode({ node: 'n1', order: odd } as never, setup.asOperator),
      ).rejects.toEqual(coded('streams-request-invalid'));
  });

  test('a refusal by the node is returned with the node’s own code', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const answer = setup.handlers.getMetrics({ node: 'n1' } as never, setup.asOperator);
    const refused = expect(answer).rejects.toMatchObject({
      code: 'streams-node-refused',
      message: expect.stringContaining('nodestream-busy no'),
      fix: expect.stringContaining('cluster help errors nodestream-busy'),
      cause: { code: 'nodestream-busy' },
    });
    await node.next();
    node.done(1n, { code: 'nodestream-busy', message: 'no' });
    await refused;
  });
});

describe('a node without a session', () => {
  test('a node without a heartbeat is reported at once', async () => {
    const { handlers, asOperator } = setUp(false);
    await expect(handlers.getMetrics({ node: 'n1' } as never, asOperator)).rejects.toEqual(
      coded(
        'streams-node-away',
        'calling n1: no session (state UP, heartbeat missing, last status 1970-01-01',
      ),
    );
  });

  test('the call waits a short time for a node that is alive', async () => {
    const setup = setUp();
    const answer = setup.handlers.getMetrics({ node: 'n1' } as never, setup.asOperator);
    while (setup.clock.sleeping === 0) await Promise.resolve();
    const node = await openSession(setup);
    await node.next();
    node.data(1n, 'metric 1\n');
    node.done(1n);
    expect(await answer).toEqual({ text: 'metric 1\n' });
  });

  test('a node that disconnects ends the tasks of all callers', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const answer = setup.handlers.getMetrics({ node: 'n1' } as never, setup.asOperator);
    const gone = expect(answer).rejects.toEqual(coded('streams-node-gone', 'n1'));
    await node.next();
    node.leave();
    await gone;
  });

  test('a node that does not answer ends the task after a timeout', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const answer = setup.handlers.getMetrics({ node: 'n1' } as never, setup.asOperator);
    const silent = expect(answer).rejects.toEqual(coded('streams-node-silent', 'n1'));
    await node.next();
    await setup.clock.advance(15_000);
    await silent;
  });
});

describe('a node that violates the protocol', () => {
  test.each([
    {
      name: 'sends more than its credit',
      say: (node: Awaited<ReturnType<typeof openSession>>) => {
        for (let i = 0; i < 18; i++) node.data(1n, `${i}`);
      },
    },
    {
      name: 'sends too much in one message',
      say: (node: Awaited<ReturnType<typeof openSession>>) => node.data(1n, new Uint8Array(65_537)),
    },
    {
      name: 'answers a task that it does not have',
      say: (node: Awaited<ReturnType<typeof openSession>>) => node.data(9n, 'x'),
    },
    {
      name: 'sends an empty message',
      say: (node: Awaited<ReturnType<typeof openSession>>) => node.say({ case: undefined }),
    },
  ])('a node loses its session if it $name', async ({ say }) => {
    const setup = setUp();
    const node = await openSession(setup);
    const lines = setup.handlers.streamLogs(logsOf({ path: '' }), setup.asOperator)[Symbol.asyncIterator]();
    const first = lines.next();
    first.catch(() => undefined);
    await node.next();
    say(node);
    await expect(
      (async () => {
        for (;;) await node.next();
      })(),
    ).rejects.toEqual(coded('streams-node-gone'));
    expect(setup.sessions.get('id-1')).toBeUndefined();
  });

  test('a newer session of a node replaces its older session', async () => {
    const setup = setUp();
    const older = await openSession(setup);
    const newer = await openSession(setup);
    await expect(older.next()).rejects.toEqual(coded('streams-node-gone', 'another session'));
    const answer = setup.handlers.getMetrics({ node: 'n1' } as never, setup.asOperator);
    await newer.next();
    newer.done(1n);
    expect(await answer).toEqual({ text: '' });
  });
});

describe('a probe with test credentials of a removed node', () => {
  const removedNodeId = `node-${'a'.repeat(32)}`;
  const wish = (nodeId: string) =>
    create(ProbeRemovedRequestSchema, { node: 'n1', probe: { removedNodeId: nodeId, heldKeys: true } });

  test('is sent to the control-plane node that runs it, and the report of this node is returned', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const answer = setup.handlers.probeRemoved(wish(removedNodeId), setup.asOperator);
    expect(await node.next()).toMatchObject({
      value: { what: { case: 'probe', value: { removedNodeId, heldKeys: true } } },
    });
    const report = create(ProbeReportSchema, { away: ['n3'], results: [{ node: 'n2', detail: 'HTTP 403' }] });
    node.data(1n, toBinary(ProbeReportSchema, report));
    node.done(1n);
    expect(await answer).toMatchObject({ report: { away: ['n3'], results: [{ node: 'n2' }] } });
  });

  test('the probe fails if the report is malformed', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const answer = setup.handlers.probeRemoved(wish(removedNodeId), setup.asOperator);
    const refused = expect(answer).rejects.toEqual(coded('streams-protocol', 'report'));
    await node.next();
    node.data(1n, new Uint8Array([0xff, 0xff, 0xff]));
    node.done(1n);
    await refused;
  });

  test.each(['', 'n2', 'node-1/../x', `${removedNodeId}0`])(
    'a probe for the removed node %j is refused before the node is called',
    async (nodeId) => {
      const { handlers, asOperator } = setUp();
      await expect(handlers.probeRemoved(wish(nodeId), asOperator)).rejects.toEqual(
        coded('streams-request-invalid'),
      );
    },
  );
});

describe('invalid requests', () => {
  test.each([
    { name: 'too many earlier log lines', request: logsOf({ path: '' }, 10_001) },
    { name: 'an invalid path', request: logsOf({ path: '../etc' }) },
    { name: 'an empty list of units', request: logsOf({ units: [] }) },
    { name: 'an option instead of a unit name', request: logsOf({ units: ['--output=export'] }) },
    { name: 'no selection of logs', request: create(StreamLogsRequestSchema, { node: 'n1' }) },
  ])('a log request is refused before a node is called: $name', async ({ request }) => {
    const { handlers, asOperator } = setUp();
    const lines = handlers.streamLogs(request, asOperator)[Symbol.asyncIterator]();
    await expect(lines.next()).rejects.toEqual(coded('streams-request-invalid'));
  });

  test.each([
    { name: 'too many earlier lines', auditLog: { backlog: 10_001, follow: false } },
    { name: 'no selection', auditLog: undefined },
  ])('a request of the audit log is refused before a node is called: $name', async ({ auditLog }) => {
    const { handlers, asOperator } = setUp();
    const lines = handlers.streamAuditLog({ node: 'n1', auditLog } as never, asOperator);
    await expect(lines[Symbol.asyncIterator]().next()).rejects.toEqual(coded('streams-request-invalid'));
  });

  test('an order to restart reaches the node', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const power = { action: PowerAction.REBOOT, bootId: BOOT };
    const answer = setup.handlers.changePower({ node: 'n1', power } as never, setup.asOperator);
    expect(await node.next()).toMatchObject({
      case: 'task',
      value: { what: { case: 'power', value: power } },
    });
    node.done(1n);
    expect(await answer).toEqual({});
  });

  test.each([
    { name: 'no order', power: undefined },
    { name: 'no action', power: { action: PowerAction.UNSPECIFIED, bootId: BOOT } },
    { name: 'no boot ID', power: { action: PowerAction.OFF, bootId: '' } },
    { name: 'an option instead of a boot ID', power: { action: PowerAction.OFF, bootId: '--force' } },
  ])('an order to restart is refused before a node is called: $name', async ({ power }) => {
    const { handlers, asOperator } = setUp();
    await expect(handlers.changePower({ node: 'n1', power } as never, asOperator)).rejects.toEqual(
      coded('streams-request-invalid'),
    );
  });

  test('an approval for a state disk reaches the node', async () => {
    const setup = setUp();
    const node = await openSession(setup);
    const approval = { approval: new Uint8Array([1]) };
    const answer = setup.handlers.approveDisk({ node: 'n1', approval } as never, setup.asOperator);
    expect(await node.next()).toMatchObject({ value: { what: { case: 'diskApproval', value: approval } } });
    node.done(1n);
    expect(await answer).toEqual({});
  });

  test.each([undefined, { approval: new Uint8Array() }, { approval: new Uint8Array(16_385) }])(
    'an approval for a state disk that is missing, empty or too large is refused before a node is called',
    async (approval) => {
      const { handlers, asOperator } = setUp();
      await expect(handlers.approveDisk({ node: 'n1', approval } as never, asOperator)).rejects.toEqual(
        coded('streams-request-invalid'),
      );
      await expect(
        handlers.getDiskSeal({ node: 'n1', nonce: new Uint8Array(31) } as never, asOperator),
      ).rejects.toEqual(coded('streams-request-invalid'));
    },
  );

  describe('an order for new keys of a state disk', () => {
    const order = {
      ...{ ownerPubKey: new Uint8Array(32), signature: new Uint8Array(64), vouchers: [] },
      ...{ uuid: 'disk', nodeSeal: new Uint8Array(32), recoveryRecipients: ['age1a'], recoveryThreshold: 1 },
    };

    test('reaches the node, whose report is returned', async () => {
      const setup = setUp();
      const node = await openSession(setup);
      const answer = setup.handlers.rotateDiskKeys({ node: 'n1', order } as never, setup.asOperator);
      expect(await node.next()).toMatchObject({ value: { what: { case: 'diskRotation', value: order } } });
      const report = create(DiskRotationReportSchema, { isClusterShareNew: true, endedApprovals: 2 });
      node.data(1n, toBinary(DiskRotationReportSchema, report));
      node.done(1n);
      expect(await answer).toEqual({ report });
    });

    test.each([
      ['that is missing', undefined],
      ['without a signature', { ...order, signature: new Uint8Array() }],
      ['with a short key', { ...order, ownerPubKey: new Uint8Array(31) }],
      ['with a short digest', { ...order, nodeSeal: new Uint8Array(31) }],
      [
        'with too many recipients',
        { ...order, recoveryRecipients: Array.from({ length: 65 }, () => 'age1a') },
      ],
    ])('%s is refused before a node is called', async (_, odd) => {
      const { handlers, asOperator } = setUp();
      await expect(handlers.rotateDiskKeys({ node: 'n1', order: odd } as never, asOperator)).rejects.toEqual(
        coded('streams-request-invalid'),
      );
    });
  });

  test('a nonce of another size is refused', async () => {
    const { handlers, asOperator } = setUp();
    await expect(
      handlers.getEvidence({ node: 'n1', nonce: new Uint8Array(31) } as never, asOperator),
    ).rejects.toEqual(coded('streams-request-invalid'));
  });

  test('an operator cannot open a node session', async () => {
    const { handlers, asOperator } = setUp();
    const stream = handlers.openSession(
      new Mailbox<OpenSessionRequest>(1).read(asOperator.signal),
      asOperator,
    );
    await expect(stream[Symbol.asyncIterator]().next()).rejects.toEqual(coded('streams-request-invalid'));
  });
});
