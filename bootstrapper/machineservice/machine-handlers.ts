import type { Clock } from '../../internal/clock/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import { combine, follow } from '../../internal/event/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { Machine } from '../../initproto/gen/machine_pb.js';
import { parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import type { Enrolment } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import type { JoinClient } from '../joinclient/index.ts';
import type { Surveys } from '../consensus/index.ts';
import { MAX_ENDPOINTS, type OperatorEndpoints } from '../nodestate/index.ts';
import type { PhaseLog } from '../phases/index.ts';
import type { RecoveryService } from '../recovery/index.ts';
import type { RoleValues } from '../roleserve/index.ts';
import { enrolmentEvent } from './enrolment-event.ts';
import { MachineServiceError } from './errors.ts';

/** Ports (injected dependencies) of the handlers. */
export interface MachineServicePorts {
  readonly recovery: Pick<RecoveryService, 'survey' | 'order'>;
  readonly enrolment: Pick<Enrolment<Membership>, 'status'>;
  readonly joinClient: Pick<JoinClient, 'status' | 'retryNow'>;
  readonly operatorEndpoints: Pick<OperatorEndpoints, 'list' | 'add'>;
  readonly phases: Pick<PhaseLog, 'length' | 'after'>;
  readonly reads: Pick<RoleValues, 'kubernetesStatus' | 'localRoles'>;
  readonly fingerprint: string;
  readonly nodeId: string;
  readonly clock: Clock;
}

/**
 * Handlers of the Machine contract. They do not authorize callers, because each listener has already done so.
 */
export function machineHandlers(ports: MachineServicePorts): Handlers<typeof Machine, unknown> {
  const { enrolment, joinClient, operatorEndpoints, phases, reads, clock, recovery } = ports;
  const { fingerprint, nodeId } = ports;
  return {
    direct: async ({ endpoints }) => {
      const wanted = endpointsFrom(endpoints);
      const known = operatorEndpoints.list;
      const isNew = wanted.some((endpoint) => !known.includes(endpoint));
      const status = enrolment.status.peek();
      const state = status.set ? status.value.state : 'New';
      // A repeated call is allowed on a machine that has joined since the first call.
      if (isNew && state !== 'New')
        throw new MachineServiceError(
          'machineservice-is-member',
          `cannot add endpoints: enrolment is in state ${state}`,
        );
      await operatorEndpoints.add(wanted);
      if (state === 'New') joinClient.retryNow();
      return { endpoints: [...operatorEndpoints.list], fingerprint, nodeId };
    },
    surveyQuorum: async (_, { signal }) => {
      const { surveys, refusals, damage, losses, ...facts } = await recovery.survey(signal);
      return {
        ...facts,
        etcd: Object.entries(surveys).map(([name, { epoch, own, others }]) => ({
          ...{ name, epoch: BigInt(epoch), own: memberToWire(own) },
          others: others.map(memberToWire),
        })),
        refusals: [...refusals],
        damage: [...damage],
        losses: [...losses],
      };
    },
    recoverQuorum: async ({ clusterName, skipChecks }) => {
      await recovery.order(clusterName, skipChecks);
      return {};
    },
    watchEnrolment: async function* (_, { signal }) {
      const inputs = combine({
        enrolment: enrolment.status,
        join: joinClient.status,
        kubernetes: reads.kubernetesStatus,
        roles: reads.localRoles,
        length: phases.length,
      });
      for await (const now of follow(inputs, signal)) {
        yield enrolmentEvent({
          enrolment: now.enrolment,
          join: now.join,
          isRunning: now.kubernetes !== undefined,
          roles: [...(now.roles ?? [])],
          phases: phases.after(0),
          fingerprint,
          nodeId,
          nowMs: clock.nowMs(),
        });
      }
    },
  };
}

/** Handlers that refuse every call with this reason. */
export function refusingHandlers(reason: CodedError): Handlers<typeof Machine, unknown> {
  const refuse = (): Promise<never> => Promise.reject(reason);
  return {
    direct: refuse,
    surveyQuorum: refuse,
    recoverQuorum: refuse,
    watchEnrolment: async function* () {
      throw reason;
    },
  };
}

function memberToWire({ endpoint, raftIndex, hasLeader }: Surveys['state']['own']) {
  return { endpoint, hasLeader, ...(raftIndex === undefined ? {} : { raftIndex }) };
}

/** Checks the endpoints that a caller sent: count and lengths first, then the format. */
function endpointsFrom(given: readonly string[]): readonly string[] {
  if (given.length > MAX_ENDPOINTS)
    throw invalidEndpoint(`${given.length} endpoints, at most ${MAX_ENDPOINTS} allowed`);
  return given.map((text) => {
    const endpoint = text.length > 300 ? undefined : parseEndpoint(text, PORTS.join);
    if (endpoint !== undefined) return endpoint;
    throw invalidEndpoint(`invalid endpoint ${JSON.stringify(text.slice(0, 80))}`);
  });
}

function invalidEndpoint(why: string): MachineServiceError {
  return new MachineServiceError('machineservice-endpoint-invalid', why);
}
