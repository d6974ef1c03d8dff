/** The one-way lock that binds a machine to one cluster for good: an init or a join, never both. */
export { NodeLockError, nodeLockErrors, type NodeLockErrorCode } from './errors.ts';
export {
  NodeLock,
  type LockClaim,
  type LockRecord,
  type LockCounter,
  type LockRegister,
  type NodeLockOptions,
} from './node-lock.ts';
