//! What the reference promises of each call, as plainly as possible: a list of tasks, in the order
//! in which they were submitted.

use client::Uuid;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Waiting,
    Ready,
    Running,
    Completed,
    Aborted,
    Cancelled,
}

use Status::*;

impl Status {
    pub fn is_settled(self) -> bool {
        matches!(self, Completed | Aborted | Cancelled)
    }

    fn has_failed(self) -> bool {
        matches!(self, Aborted | Cancelled)
    }
}

#[derive(Clone, Debug)]
pub struct Task {
    pub id: Uuid,
    pub queue: usize,
    pub priority: i64,
    pub key: Option<String>,
    pub group: Option<String>,
    /// Predecessors that have not settled.
    pub after: Vec<Uuid>,
    /// All predecessors.
    pub named: Vec<Uuid>,
    pub runs_after_failure: bool,
    /// 0: no limit.
    pub max_tries: i32,
    /// Its time is far away.
    pub is_delayed: bool,
    pub status: Status,
    pub worker: Option<String>,
    pub token: Option<Uuid>,
    pub tries: i32,
    pub failures: i32,
    pub errors: Vec<&'static str>,
    pub history: Vec<&'static str>,
}

/// The SQLSTATE with which a call is refused.
pub type Refusal = &'static str;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OnConflict {
    Error,
    Ignore,
    Replace,
}

/// What a task is submitted with.
pub struct Draft {
    pub task: Task,
    pub on_conflict: OnConflict,
}

#[derive(Default)]
pub struct Model {
    pub tasks: Vec<Task>,
    pub paused: Vec<usize>,
    /// The most tasks of a queue that run at a time.
    pub limits: Vec<(usize, usize)>,
}

impl Model {
    pub fn get(&self, id: Uuid) -> Option<&Task> {
        self.tasks.iter().find(|it| it.id == id)
    }

    fn get_mut(&mut self, id: Uuid) -> &mut Task {
        self.tasks.iter_mut().find(|it| it.id == id).expect("a task of the model")
    }

    pub fn bearer(&self, queue: usize, key: &str) -> Option<Uuid> {
        let bears = |it: &&Task| {
            it.queue == queue && it.key.as_deref() == Some(key) && !it.status.is_settled()
        };
        self.tasks.iter().find(bears).map(|it| it.id)
    }

    pub fn submit(&mut self, draft: Draft) -> Result<Uuid, Refusal> {
        let Draft { mut task, on_conflict } = draft;
        if self.get(task.id).is_some() {
            return Err("23505");
        }
        let key = task.key.as_deref();
        if let Some(bearer) = key.and_then(|key| self.bearer(task.queue, key)) {
            match on_conflict {
                OnConflict::Error => return Err("23505"),
                OnConflict::Ignore => return Ok(bearer),
                OnConflict::Replace if self.get(bearer).unwrap().status == Running => {
                    return Err("55006");
                }
                OnConflict::Replace => self.end(bearer, Cancelled),
            }
        }
        let id = task.id;
        let named = std::mem::take(&mut task.after);
        self.tasks.push(task);
        for after in named {
            self.wait_for(id, after);
        }
        self.wake(id);
        Ok(id)
    }

    /// One more predecessor; whether that is a new dependency.
    fn wait_for(&mut self, id: Uuid, after: Uuid) -> bool {
        let status = self.get(after).map(|it| it.status);
        let task = self.get_mut(id);
        match status {
            None | Some(Completed) => false,
            Some(_) if task.status.is_settled() || task.named.contains(&after) => false,
            Some(failed) if failed.has_failed() => {
                task.named.push(after);
                self.hear_of_failure(id);
                false
            }
            Some(_) => {
                task.named.push(after);
                task.after.push(after);
                task.status = Waiting;
                true
            }
        }
    }

    fn hear_of_failure(&mut self, id: Uuid) {
        let task = self.get_mut(id);
        if task.runs_after_failure {
            task.failures += 1;
        } else {
            task.errors.push("dependency_aborted");
            self.end(id, Aborted);
        }
    }

    /// What waits for nothing is ready.
    fn wake(&mut self, id: Uuid) {
        let task = self.get_mut(id);
        if task.status == Waiting && task.after.is_empty() && !task.is_delayed {
            task.status = Ready;
        }
    }

    fn end(&mut self, id: Uuid, status: Status) {
        self.end_all(&[id], status);
    }

    /// Ends all at once: none of them is a dependent of another one any more.
    fn end_all(&mut self, ids: &[Uuid], status: Status) {
        for id in ids {
            let task = self.get_mut(*id);
            task.status = status;
            task.token = None;
            task.after.clear();
        }
        for id in ids {
            let waits = |it: &&Task| it.after.contains(id);
            let dependents: Vec<Uuid> = self.tasks.iter().filter(waits).map(|it| it.id).collect();
            for dependent in dependents {
                self.get_mut(dependent).after.retain(|it| it != id);
                // The failure of another one may have ended it since.
                if self.get(dependent).unwrap().status.is_settled() {
                    continue;
                }
                if status.has_failed() {
                    self.hear_of_failure(dependent);
                }
                self.wake(dependent);
            }
        }
    }

    /// The ready tasks of a queue, the next one first.
    pub fn ready(&self, queue: usize) -> Vec<&Task> {
        let is_ready = |it: &&Task| it.queue == queue && it.status == Ready;
        let mut ready: Vec<&Task> = self.tasks.iter().filter(is_ready).collect();
        ready.sort_by_key(|it| std::cmp::Reverse(it.priority));
        ready
    }

    /// How many tasks a queue hands out to a caller that asks for `most`.
    pub fn available(&self, queue: usize, most: usize) -> usize {
        if self.paused.contains(&queue) {
            return 0;
        }
        let limit = self.limits.iter().find(|it| it.0 == queue).map_or(usize::MAX, |it| it.1);
        let is_running = |it: &&Task| it.queue == queue && it.status == Running;
        let running = self.tasks.iter().filter(is_running).count();
        most.min(limit.saturating_sub(running)).min(self.ready(queue).len())
    }

    pub fn own(&mut self, id: Uuid, token: Uuid, worker: &str) {
        let task = self.get_mut(id);
        assert_eq!(task.status, Ready, "{id} was handed out");
        task.status = Running;
        task.tries += 1;
        task.history.push("TaskAssignment");
        task.token = Some(token);
        task.worker = Some(worker.to_owned());
    }

    fn refuse(&self, id: Uuid, token: Uuid) -> Option<Refusal> {
        match self.get(id) {
            None => Some("P0002"),
            Some(task) if task.status.is_settled() => Some("55000"),
            Some(task) if task.token != Some(token) => Some("55006"),
            Some(_) => None,
        }
    }

    pub fn extend(&self, id: Uuid, token: Uuid) -> bool {
        self.refuse(id, token).is_none()
    }

    pub fn return_task(
        &mut self,
        id: Uuid,
        token: Uuid,
        outcome: &str,
        pause: bool,
    ) -> Result<Status, Refusal> {
        if let Some(refusal) = self.refuse(id, token) {
            return Err(refusal);
        }
        match outcome {
            "completed" => self.end(id, Completed),
            "aborted" => {
                self.get_mut(id).errors.push("test");
                self.end(id, Aborted);
            }
            "yield" => {
                self.get_mut(id).tries -= 1;
                self.release(id, "TaskYield", false);
            }
            _ => self.release(id, "TaskRetry", pause),
        }
        Ok(self.get(id).unwrap().status)
    }

    fn release(&mut self, id: Uuid, event: &'static str, pause: bool) {
        let task = self.get_mut(id);
        task.history.push(event);
        task.token = None;
        if event != "TaskYield" && task.max_tries > 0 && task.tries >= task.max_tries {
            task.errors.push("tries_exhausted");
            self.end(id, Aborted);
        } else {
            task.status = if pause { Waiting } else { Ready };
            task.is_delayed = pause;
            task.worker = None;
        }
    }

    pub fn expire(&mut self, id: Uuid) {
        self.release(id, "TaskTimeout", false);
    }

    /// How many leases of a worker end.
    pub fn release_worker(&mut self, worker: &str) -> i32 {
        let is_its = |it: &&Task| it.status == Running && it.worker.as_deref() == Some(worker);
        let ids: Vec<Uuid> = self.tasks.iter().filter(is_its).map(|it| it.id).collect();
        ids.iter().for_each(|id| self.expire(*id));
        ids.len() as i32
    }

    pub fn cancel(&mut self, id: Uuid) -> Result<bool, Refusal> {
        let is_live = !self.get(id).ok_or("P0002")?.status.is_settled();
        if is_live {
            self.end(id, Cancelled);
        }
        Ok(is_live)
    }

    pub fn cancel_group(&mut self, queue: usize, group: &str) -> i64 {
        let is_its = |it: &&Task| {
            it.queue == queue && it.group.as_deref() == Some(group) && !it.status.is_settled()
        };
        let ids: Vec<Uuid> = self.tasks.iter().filter(is_its).map(|it| it.id).collect();
        self.end_all(&ids, Cancelled);
        ids.len() as i64
    }

    pub fn delay(&mut self, id: Uuid, far: bool) -> Result<bool, Refusal> {
        self.get(id).ok_or("P0002")?;
        let task = self.get_mut(id);
        let may = matches!(task.status, Waiting | Ready);
        if may {
            task.is_delayed = far;
            task.status = Waiting;
            self.wake(id);
        }
        Ok(may)
    }

    /// Whether `from` waits for `to`, directly or not.
    fn waits(&self, from: Uuid, to: Uuid) -> bool {
        from == to
            || self.get(from).is_some_and(|task| task.after.iter().any(|it| self.waits(*it, to)))
    }

    pub fn link(&mut self, after: Uuid, run: Uuid) -> Result<i32, Refusal> {
        if after == run {
            return Err("22023");
        }
        let status = self.get(run).ok_or("P0002")?.status;
        if status == Running || status.is_settled() {
            return Err("55000");
        }
        if self.waits(after, run) {
            return Err("22023");
        }
        Ok(i32::from(self.wait_for(run, after)))
    }

    /// How many tasks are deleted, dependents included.
    pub fn delete(&mut self, ids: &[Uuid]) -> i32 {
        let mut gone = 0;
        for id in ids {
            let Some(at) = self.tasks.iter().position(|it| it.id == *id) else { continue };
            self.tasks.remove(at);
            gone += 1;
            let mut orphans = Vec::new();
            for task in self.tasks.iter_mut().filter(|it| it.after.contains(id)) {
                task.after.retain(|it| it != id);
                if task.after.is_empty() {
                    orphans.push(task.id);
                }
            }
            gone += self.delete(&orphans);
        }
        gone
    }

    pub fn resubmit(&mut self, id: Uuid, new: Option<Uuid>) -> bool {
        let may = self.get(id).is_some_and(|it| it.status.has_failed());
        if let Some(new) = new.filter(|_| may) {
            let mut task = self.get(id).unwrap().clone();
            let key = task.key.take().filter(|key| self.bearer(task.queue, key).is_none());
            self.tasks.push(Task {
                id: new,
                key,
                after: Vec::new(),
                named: Vec::new(),
                runs_after_failure: false,
                is_delayed: false,
                status: Ready,
                worker: None,
                token: None,
                tries: 0,
                failures: 0,
                errors: Vec::new(),
                history: Vec::new(),
                ..task
            });
        }
        may
    }
}
