/**
 * What every API server asks before it lets a kubelet do anything: is the node behind this user still a member?
 *
 * ```
 * kubelet ─cert: CN system:node:NAME, uid NODE-ID─▶ API server ─SubjectAccessReview─▶ 127.0.0.1:9092 ─▶ record of NODE-ID
 *                                                        │ denied: 403, now            (linearizable, a second old at most)
 *                                                        └ no opinion: Node, RBAC
 * ```
 * Any process of the machine, and a pod in its network, can connect; only who shows the API server's certificate is
 * answered, and whoever holds connections without one loses the oldest to the next comer.
 *
 * It never allows anything: what a member's kubelet may do is for Kubernetes' own authorizers. What cannot be decided is
 * refused, so the API server asks again and then denies.
 */
export { createMembershipLookup, type MembershipLookup } from './membership-lookup.ts';
export { serveAuthorization, type AuthorizationListener } from './serve-authorization.ts';
