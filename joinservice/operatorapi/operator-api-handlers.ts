import type { Handlers } from '../../internal/rpc/index.ts';
import type { Caller } from '../curator/index.ts';
import type { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { collateralHandlers, type CollateralHandlerParts } from './collateral-handlers.ts';
import { auditHandlers } from './audit-handlers.ts';
import { documentHandlers } from './document-handlers.ts';
import { joinDecisionHandlers } from './join-handlers.ts';
import { kubeconfigHandlers, type KubeconfigSigner } from './kubeconfig-handlers.ts';
import { keysHandlers, type KeysHandlerParts } from './keys-handlers.ts';
import { ownershipHandlers } from './ownership-handlers.ts';
import { operatorHandlers, type OperatorHandlerParts } from './operator-handlers.ts';

/** What the handlers of the contract `OperatorApi` work with. */
export type OperatorApiParts = Omit<OperatorHandlerParts, 'signer'> &
  CollateralHandlerParts &
  KeysHandlerParts & {
    readonly signer: OperatorHandlerParts['signer'] & KubeconfigSigner;
  };

/** Handlers of the contract `OperatorApi`. */
export function operatorApiHandlers(parts: OperatorApiParts): Handlers<typeof OperatorApi, Caller> {
  return {
    ...joinDecisionHandlers(parts),
    ...auditHandlers(parts),
    ...operatorHandlers(parts),
    ...ownershipHandlers(parts),
    ...documentHandlers(parts),
    ...kubeconfigHandlers(parts),
    ...collateralHandlers(parts),
    ...keysHandlers(parts),
  };
}
