import type { ManufacturerTrust } from '../../internal/attestation/collateral/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { Caller, Mutations, NodeStore } from '../curator/index.ts';
import type { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import type { OwnerDocuments } from '../ownerdocs/index.ts';
import type { SignerClient } from '../signerlink/index.ts';

/** Dependencies of the handlers of the contract `OperatorApi`. */
export interface OperatorApiParts {
  /** The state etcd, below the prefix of the cluster. */
  readonly etcd: KeySpace;
  readonly mutations: Mutations;
  readonly nodes: Pick<NodeStore, 'list'>;
  readonly ownerDocs: OwnerDocuments;
  readonly clock: Clock;
  /** Issues certificates to operators, and client certificates of the Kubernetes API to owners. */
  readonly signer: Pick<SignerClient, 'signOperator' | 'signKubeconfig'>;
  /** The cluster CAs that this node trusts, a PEM bundle. */
  readonly clusterCaPem: string;
  /** Roots of the manufacturers whose collateral is accepted. */
  readonly manufacturers: ManufacturerTrust;
}

/** Handlers of some methods of `OperatorApi`. */
export type HandlersOf<Method extends keyof AllHandlers> = Pick<AllHandlers, Method>;
type AllHandlers = Handlers<typeof OperatorApi, Caller>;
