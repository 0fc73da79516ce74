//! Keys of a queue: what somebody names who may not speak for the others. It is a target of its own, and is protected as the key is.

/// The key as a queue's own: `mail/tenant-7`. No two queues have one in common.
///
/// ```
/// use redrive_policy::protection::{key_of_queue, queue_of_key};
/// assert_eq!(key_of_queue("mail", "tenant-7"), "mail/tenant-7");
/// assert_eq!(queue_of_key(&key_of_queue("a/b", "c/d")), Some(("a/b".to_owned(), "c/d")));
/// assert_eq!(queue_of_key("tenant-7"), None);
/// ```
pub fn key_of_queue(queue: &str, key: &str) -> String {
    format!("{}/{key}", queue.replace('%', "%25").replace('/', "%2F"))
}

/// The queue and the key that such a text is made of.
pub fn queue_of_key(text: &str) -> Option<(String, &str)> {
    let (queue, key) = text.split_once('/').filter(|(queue, key)| !queue.is_empty() && !key.is_empty())?;
    Some((queue.replace("%2F", "/").replace("%25", "%"), key))
}
