import type { Handlers } from '../../internal/rpc/index.ts';
import type { Caller } from '../curator/index.ts';
import type { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { backupHandlers } from './backup-handlers.ts';
import { collateralHandlers } from './collateral-handlers.ts';
import { auditHandlers } from './audit-handlers.ts';
import { documentHandlers } from './document-handlers.ts';
import { joinDecisionHandlers } from './join-handlers.ts';
import { kubeconfigHandlers } from './kubeconfig-handlers.ts';
import { keysHandlers } from './keys-handlers.ts';
import type { OperatorApiParts } from './operator-api-parts.ts';
import { ownershipHandlers } from './ownership-handlers.ts';
import { operatorHandlers } from './operator-handlers.ts';

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
    ...backupHandlers(parts),
  };
}
