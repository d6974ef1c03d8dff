/** The one-way node lock: it binds a machine to one cluster for good, by an init or by a join, never both. */
export { NodeLockError, type NodeLockErrorCode } from './errors.ts';
export {
  NodeLock,
  type LockClaim,
  type LockRecord,
  type LockCounter,
  type LockRegister,
  type NodeLockOptions,
} from './node-lock.ts';
